-- A row is the time that the ledger covers: from the first to the last instant at which the fleet had a GPU; of some teams, from
-- the first instant at which they held one.
select
    min(start_us) as first_us,
    (select max(end_us) from capacity where $cluster is null or cluster = $cluster) as last_us
from (
    select start_us
    from capacity
    where ($teams::varchar[] is null or list_contains($teams, '__platform__'))
        and ($cluster is null or cluster = $cluster)
    union all
    select s.start_us
    from segment s
    left join run_team t on t.run_id = s.run_id and t.cluster = s.cluster
    where $teams::varchar[] is not null
        and s.run_id is not null
        and list_contains($teams::varchar[], coalesce(t.team, '__unallocated__'))
        and ($cluster is null or s.cluster = $cluster)
);
