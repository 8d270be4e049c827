-- A row is a finding with the words of its run, its team, its devices and their nodes.
with part as (
    select key, unnest(device_ids) as device_id
    from finding
),
held as (
    select
        p.key,
        list(
            distinct case when d.gi >= 0 then d.gpu || '/GI-' || d.gi else d.gpu end
            order by case when d.gi >= 0 then d.gpu || '/GI-' || d.gi else d.gpu end
        ) as devices,
        list(distinct d.node order by d.node) filter (where d.node is not null) as nodes
    from part p
    join device d using (device_id)
    group by p.key
)
select
    f.key,
    f.detector,
    f.cluster,
    f.job_id,
    r.name,
    r.user_name,
    coalesce(t.team, '__unallocated__') as team,
    f.state,
    f.resolved_reason,
    f.confidence,
    f.started_us,
    f.ended_us,
    f.last_seen_us,
    f.wasted_units,
    f.wasted_den,
    f.bucket,
    f.evidence,
    f.rule_version,
    h.devices,
    h.nodes
from finding f
left join held h on h.key = f.key
left join run r on r.run_id = f.run_id and r.cluster = f.cluster
left join run_team t on t.run_id = f.run_id and t.cluster = f.cluster
where (not $open_only or f.state = 'open')
    and ($team is null or coalesce(t.team, '__unallocated__') = $team)
    and ($end_us is null or f.started_us < $end_us)
    and ($start_us is null or f.ended_us is null or f.ended_us > $start_us)
order by f.key;
