-- A row is a time in which one run held a GPU or a slice of it, the newest first.
select
    s.start_us,
    s.end_us,
    d.gi,
    s.profile,
    r.job_id,
    r.name,
    r.user_name,
    coalesce(t.team, '__unallocated__') as team
from device d
join segment s on s.device_id = d.device_id and s.cluster = d.cluster
join run r on r.run_id = s.run_id and r.cluster = s.cluster
left join run_team t on t.run_id = r.run_id and t.cluster = r.cluster
where d.cluster = $cluster and d.gpu = $gpu and s.end_us > $start_us and s.start_us < $end_us
order by s.start_us desc, d.gi, r.job_id
limit $limit;
