-- A row is the last word on a gang, queued workload or application up to an instant, and the team of its newest run. Those
-- that ended more than $recent_us before the end of what their cluster's sources know (heard_at) are left out, but where that state
-- is asked for.
with last_word as (
    select *
    from workload
    where ($cluster is null or cluster = $cluster)
        and (observed_us is null or observed_us <= $at_us)
    qualify row_number() over (
        partition by cluster, scheduler, kind, uid
        order by observed_us desc nulls last, rowid desc
    ) = 1
),
kept as (
    select l.*
    from last_word l
    left join heard_at h using (cluster)
    where coalesce(state not in ('finished', 'failed', 'deleted'), true)
        or greatest(end_us, admitted_us, evicted_us) >= coalesce(h.at_us, $at_us) - $recent_us
        or coalesce(list_contains($states::varchar[], state), false)
),
job_team as (
    select r.cluster, r.job_id, arg_max(t.team, (r.start_us, r.run_id)) as team
    from run r
    join run_team t on t.run_id = r.run_id and t.cluster = r.cluster
    where t.team <> '__unallocated__' and (r.cluster, r.job_id) in (select (cluster, job_id) from kept)
    group by r.cluster, r.job_id
)
select k.*, t.team
from kept k
left join job_team t on t.cluster = k.cluster and t.job_id = k.job_id
order by
    k.state in ('pending', 'inadmissible', 'evicted') desc nulls last,
    k.submit_us nulls last,
    k.cluster,
    k.scheduler,
    k.kind,
    k.uid
limit $limit;
