-- A row is an owner of held time that no ownership rule gives to a team.
select
    r.scheduler,
    r.queue,
    r.namespace,
    r.account,
    r.user_name,
    sum((s.end_us - s.start_us) / 3600e6 * s.share_num / s.share_den) as gpu_hours
from segment s
join run r on r.run_id = s.run_id and r.cluster = s.cluster
join run_team t on t.run_id = s.run_id and t.cluster = s.cluster
where t.team = '__unallocated__'
group by all
order by gpu_hours desc
limit 20;
