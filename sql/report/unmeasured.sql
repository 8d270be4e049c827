-- A row is a team and a node: GPU-seconds that jobs of the team held there without a reading, in the hours of the window.
select
    coalesce(t.team, '__unallocated__') as team,
    d.node,
    sum(l.unobserved_us * l.share_num / l.share_den) / 1000000 as gpu_seconds
from ledger_hour l
join device d using (cluster, device_id)
left join run_team t using (cluster, run_id)
where l.hour_us >= $start_us and l.hour_us < $end_us and l.unobserved_us > 0 and d.node is not null
group by all
order by team, node;
