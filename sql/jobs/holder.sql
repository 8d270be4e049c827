-- A row is a team with a run in the window.
select distinct coalesce(t.team, '__unallocated__') as team
from run r
left join run_team t on t.run_id = r.run_id and t.cluster = r.cluster
where r.start_us < $end_us and r.end_us > $start_us
    and ($teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__')))
order by team
limit $limit;
