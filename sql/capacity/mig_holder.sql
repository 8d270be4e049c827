-- A row is a MIG instance that a job holds at an instant, by job and team.
select
    d.pool,
    d.model,
    d.gpu,
    d.gi,
    s.profile,
    r.job_id as job,
    r.name,
    coalesce(t.team, '__unallocated__') as team,
    r.user_name as "user"
from segment s
join device d on d.device_id = s.device_id and d.cluster = s.cluster
join run r on r.run_id = s.run_id and r.cluster = s.cluster
left join run_team t on t.run_id = s.run_id and t.cluster = s.cluster
where s.cluster = $cluster and d.gi >= 0 and s.start_us < $at_us and s.end_us >= $at_us
order by d.gpu, d.gi, r.job_id;
