-- A row is what a run of a gang (gang_start) had on a node, or one of its pods, when the gang began: CPUs, memory and its rule.
select
    g.gang,
    c.scheduler,
    max(c.kind) as kind,
    c.node,
    max(c.cpu_milli) as cpu_milli,
    max(c.memory_bytes) as memory_bytes,
    max(c.node_rule) as node_rule
from gang_start g
join run r on r.cluster = $cluster and r.run_id = g.run_id
join claim c on c.cluster = $cluster and c.scheduler = r.scheduler and c.job_id = r.job_id and c.run_key = r.run_key
where c.device_count > 0 and c.start_us <= g.at_us and coalesce(c.end_us > g.at_us, true) and c.node is not null
group by g.gang, g.run_id, c.scheduler, c.node, c.pod_uid
order by g.gang, c.node;
