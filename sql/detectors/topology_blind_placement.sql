-- A row is a job, a run of it and an hour in which its GPUs talked over links that are slower than those of a place that was
-- free when it began. Gangs come from gang, gang_link and gang_placement
-- (sql/topology/placement/gangs.sql, gpuwatch/topology/gangs.py).
with talked as (
    select
        p.run_id,
        l.start_us,
        l.link_ratio,
        l.pcie_bytes_per_s,
        -- What the slowest link was surely busy with while the engines did no work at a roof: communication that shows.
        case
            when l.slack_ratio is not null
                then least(
                    l.slack_ratio,
                    greatest(coalesce(l.link_ratio, 0), coalesce(l.pcie_bytes_per_s / (2e9 * p.gb_per_s), 0))
                )
        end as exposed_ratio
    from gang_link l
    join gang_placement p using (run_id)
    where l.talking and l.start_us >= $since_us and l.start_us < $until_us
),
hourly as (
    select
        run_id,
        start_us // 3600000000 * 3600000000 as hour_us,
        min(start_us) as start_us,
        max(start_us) + 300000000 as end_us,
        count(*) as windows,
        exact_mean(link_ratio) as link_ratio,
        exact_mean(pcie_bytes_per_s) as pcie_bytes_per_s,
        case when count(exposed_ratio) = count(*) then exact_mean(exposed_ratio) end as exposed_ratio
    from talked
    group by all
),
-- A step is 1 + phi (r - 1) times as long, phi being the exposed share on the best links; measured on these
-- links it is the share c = phi r / (1 + phi (r - 1)). Where it was not measured, both ends of what is published.
slowed as (
    select
        h.*,
        p.* exclude (run_id),
        coalesce(
            h.exposed_ratio / (p.bandwidth_ratio - h.exposed_ratio * (p.bandwidth_ratio - 1)), $exposed_low
        ) as phi_low,
        greatest(phi_low, $exposed_high) as phi_high,
        1 + phi_low * (p.bandwidth_ratio - 1) as slow_low,
        1 + phi_high * (p.bandwidth_ratio - 1) as slow_high,
        coalesce(1 - 1 / slow_low, 0) as lost_low,
        coalesce(1 - 1 / slow_high, 0) as lost_high
    from hourly h
    join gang_placement p using (run_id)
),
bucket_time as (
    select
        l.device_id,
        l.run_id,
        l.hour_us,
        sum(l.communication_us)::bigint as communication_us,
        sum(l.stalled_us)::bigint as stalled_us,
        sum(l.below_roof_us)::bigint as below_roof_us,
        sum(
            l.unobserved_us + l.hoarded_us + l.gap_us + l.communication_us + l.stalled_us + l.below_roof_us
            + l.memory_roof_us + l.compute_us
        )::bigint as held_us
    from ledger_hour l
    join hourly h using (run_id, hour_us)
    where l.cluster = $cluster and l.hour_us >= $since_us and l.hour_us < $until_us
    group by all
),
lost as (
    select
        b.*,
        least(s.windows * 300000000, b.held_us) as talking_us,
        floor(s.lost_low * talking_us)::bigint as lost_us,
        s.lost_high * talking_us as lost_high_us
    from bucket_time b
    join slowed s using (run_id, hour_us)
),
-- A GPU that waits for its links stands in communication as far as bytes show it, else with its engine busy and its SMs not.
part as (
    select device_id, run_id, hour_us, 'communication' as bucket, least(lost_us, communication_us) as us
    from lost
    union all
    select device_id, run_id, hour_us, 'stalled', least(lost_us - communication_us, stalled_us)
    from lost
    union all
    select device_id, run_id, hour_us, 'below_roof', least(lost_us - communication_us - stalled_us, below_roof_us)
    from lost
),
claimed as (
    select
        run_id,
        hour_us,
        list({'device_id': device_id, 'run_id': run_id, 'hour_us': hour_us, 'bucket': bucket, 'us': us}) as claims
    from part
    where us > 0
    group by run_id, hour_us
),
summed as (
    select
        run_id,
        hour_us,
        list(device_id order by device_id) as device_ids,
        sum(talking_us) as talking_us,
        sum(lost_us) as lost_us,
        sum(lost_high_us) as lost_high_us
    from lost
    group by run_id, hour_us
)
select
    g.chain,
    s.run_id,
    s.start_us,
    s.end_us,
    d.device_ids,
    c.claims,
    map {
        'gpus': g.devices::double,
        'gb_per_s': s.gb_per_s,
        'mean_gb_per_s': s.mean_gb_per_s,
        'best_gb_per_s': s.best_gb_per_s,
        'bandwidth_ratio': s.bandwidth_ratio,
        'free_gpus': s.free_gpus,
        'nvlink_domains': s.nvlink_domains,
        'pcie_switches': s.pcie_switches,
        'sockets': s.sockets,
        'nodes': s.nodes,
        'leaves': s.leaves,
        'nvlink_ratio': s.link_ratio::double,
        'nvlink_gb_per_s': s.link_ratio * s.link_gb_per_s,
        'pcie_gb_per_s': s.pcie_bytes_per_s / 1e9,
        'measured_exposed_ratio': s.exposed_ratio::double,
        'exposed_ratio_low': s.phi_low::double,
        'exposed_ratio_high': s.phi_high::double,
        'slowdown_low': s.slow_low::double,
        'slowdown_high': s.slow_high::double,
        'talking_gpu_hours': d.talking_us / 3600e6,
        'lost_gpu_hours_low': d.lost_us / 3600e6,
        'lost_gpu_hours_high': d.lost_high_us / 3600e6
    } as numbers,
    map_concat(case when s.not_known is not null then map {'not_known': s.not_known} end, map {
        'grade': s.grade,
        'at': s.at,
        'spans': s.spans,
        'best': s.best,
        'kind': s.kind,
        'best_kind': s.best_kind,
        'worst_level': s.worst_level,
        'best_level': s.best_level,
        'levels': s.levels,
        'best_gpus': s.best_gpus,
        'best_nodes': s.best_nodes,
        'scheduler': j.scheduler
    }) as words
from slowed s
join summed d using (run_id, hour_us)
left join claimed c using (run_id, hour_us)
join gang g using (run_id)
join job_chain j using (run_id)
order by g.chain, s.start_us;
