-- A row is a request of the window that waited for a quota or a limit, with the words by which its team is found.
with waited as (
    select
        cluster,
        job_id,
        any_value(queue) as queue,
        any_value(namespace) as namespace,
        any_value(account) as account,
        any_value(user_name) as user_name,
        null::varchar as labels,
        greatest(min(submit_us), $from_us) as start_us,
        least(coalesce(max(start_us), max(evidence_us)), $until_us) as end_us
    from pending
    where submit_us < $until_us and evidence_us > $from_us and list_contains($reasons::varchar[], reason)
        and ($cluster is null or cluster = $cluster)
    group by cluster, job_id
)
select *
from waited
where start_us < end_us
order by cluster, job_id
limit $limit;
