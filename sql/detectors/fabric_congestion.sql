-- A row is a leaf switch and an hour in which several gangs that reach over its nodes exchanged less than in the week before
-- and waited more. One gang may have changed its work; two that do not know of each other have not.
-- The subject is the pool of the nodes below the switch, by the name of the switch.
with switch as (
    select child as node, parent as leaf, valid_from_us, valid_until_us
    from topology_edge
    where cluster = $cluster and child_kind = 'node' and parent_kind = 'leaf'
),
whole_device as (
    select device_id, node
    from device
    where cluster = $cluster and gi < 0 and node is not null
),
-- Gangs over several nodes in the evaluated hours.
wide as (
    select w.run_id
    from workload_hour w
    join whole_device d using (device_id)
    where w.cluster = $cluster and w.hour_us >= $since_us and w.hour_us < $until_us
    group by w.run_id, w.hour_us
    having count(distinct d.node) >= 2
),
wide_chain as (
    select distinct chain
    from job_chain
    where run_id in (select run_id from wide) and not exempt
),
member as (
    select run_id, chain, start_us, end_us
    from job_chain
    where chain in (select chain from wide_chain)
),
carried as (
    select
        m.chain,
        w.hour_us,
        count(distinct w.device_id) as devices,
        sum(w.covered_us) as covered_us,
        exact_mean(w.link_ratio) as link_ratio,
        exact_mean(w.pcie_bytes_per_s) as pcie_bytes_per_s
    from workload_hour w
    join member m using (run_id)
    where w.cluster = $cluster and w.hour_us >= $since_us - $baseline_us and w.hour_us < $until_us
        and m.start_us + $warm_up_us <= w.hour_us
        and w.hour_us + 3600000000 <= m.end_us
    group by m.chain, w.hour_us
),
waited as (
    select
        m.chain,
        l.hour_us,
        sum(l.gap_us + l.communication_us + l.stalled_us) as waited_us
    from ledger_hour l
    join member m using (run_id)
    where l.cluster = $cluster and l.hour_us >= $since_us - $baseline_us and l.hour_us < $until_us
    group by m.chain, l.hour_us
),
hourly as (
    -- Of measured time: without SM_ACTIVE the ledger knows gaps only, and they count too.
    select c.*, w.waited_us / c.covered_us as waited_ratio
    from carried c
    join waited w using (chain, hour_us)
    where c.covered_us >= $coverage_min * 3600000000 * c.devices
),
usual as (
    select
        *,
        count(*) over week as usual_hours,
        median(link_ratio) over week as usual_link_ratio,
        median(pcie_bytes_per_s) over week as usual_pcie_bytes_per_s,
        median(waited_ratio) over week as usual_waited_ratio
    from hourly
    window week as (
        partition by chain, devices order by hour_us range between $baseline_us preceding and 3600000000 preceding
    )
),
-- The traffic itself must drop: NVLink in a ring runs at the pace of the network; without NVLink, PCIe traffic counts.
compared as (
    select
        *,
        coalesce(usual_link_ratio >= $quiet_link_ratio, false) as by_nvlink,
        case
            when by_nvlink then 1 - link_ratio / usual_link_ratio
            when usual_pcie_bytes_per_s >= $quiet_pcie_bytes_per_s then 1 - pcie_bytes_per_s / usual_pcie_bytes_per_s
        end as fall_ratio,
        waited_ratio - usual_waited_ratio as rise_ratio,
        coalesce(
            fall_ratio >= $fall_ratio_min
            and rise_ratio >= $rise_ratio_min
            -- Traffic that moved from one counter to the other has not fallen.
            and not (by_nvlink and coalesce(pcie_bytes_per_s > 1.05 * greatest(usual_pcie_bytes_per_s, $quiet_pcie_bytes_per_s), false)),
            false
        ) as fallen
    from usual
    where hour_us >= $since_us and usual_hours >= $baseline_hours_min
),
-- A gang is of the switch that has at least half of its nodes.
lies as (
    select
        m.chain,
        w.hour_us,
        s.leaf,
        count(distinct d.node) as nodes,
        sum(count(distinct d.node)) over (partition by m.chain, w.hour_us) as all_nodes,
        list(distinct w.device_id) as device_ids,
        list(distinct d.node) as node_names
    from workload_hour w
    join member m using (run_id)
    join whole_device d using (device_id)
    join switch s
        on s.node = d.node
        and coalesce(s.valid_from_us <= w.hour_us, true) and coalesce(s.valid_until_us > w.hour_us, true)
    where w.cluster = $cluster and w.hour_us >= $since_us and w.hour_us < $until_us
    group by m.chain, w.hour_us, s.leaf
),
placed as (
    select l.leaf, l.device_ids, l.node_names, j.*
    from compared j
    join lies l using (chain, hour_us)
    where 2 * l.nodes >= l.all_nodes
),
congested as (
    select
        leaf,
        hour_us,
        count(*) as gangs,
        count(*) filter (where fallen) as fallen_gangs,
        exact_mean(case when fallen then fall_ratio end) as fall_ratio,
        exact_mean(case when fallen then rise_ratio end) as rise_ratio,
        exact_mean(case when fallen then link_ratio end) as link_ratio,
        exact_mean(case when fallen then usual_link_ratio end) as usual_link_ratio,
        exact_mean(case when fallen then pcie_bytes_per_s end) as pcie_bytes_per_s,
        exact_mean(case when fallen then usual_pcie_bytes_per_s end) as usual_pcie_bytes_per_s,
        min(usual_hours) filter (where fallen) as usual_hours,
        list_sort(list_distinct(flatten(list(device_ids) filter (where fallen)))) as device_ids,
        list_sort(list_distinct(flatten(list(node_names) filter (where fallen)))) as nodes
    from placed
    group by leaf, hour_us
    having fallen_gangs >= $gangs_min and fallen_gangs >= $gangs_ratio_min * count(*)
),
-- A job spread over two switches that both fell is counted where it lies, and its time is lost once.
lost as (
    select
        p.leaf,
        l.device_id,
        l.run_id,
        l.hour_us,
        floor(max(p.rise_ratio) * sum(
            l.unobserved_us + l.hoarded_us + l.gap_us + l.communication_us + l.stalled_us + l.below_roof_us
            + l.memory_roof_us + l.compute_us
        ))::bigint as lost_us,
        sum(l.communication_us)::bigint as communication_us,
        sum(l.stalled_us)::bigint as stalled_us,
        sum(l.gap_us)::bigint as gap_us
    from placed p
    join congested c using (leaf, hour_us)
    join member m using (chain)
    join ledger_hour l on l.cluster = $cluster and l.run_id = m.run_id and l.hour_us = p.hour_us
    where p.fallen and l.hour_us >= $since_us and l.hour_us < $until_us
    group by p.leaf, l.device_id, l.run_id, l.hour_us
),
part as (
    select leaf, device_id, run_id, hour_us, 'communication' as bucket, least(lost_us, communication_us) as us
    from lost
    union all
    select leaf, device_id, run_id, hour_us, 'stalled', least(lost_us - communication_us, stalled_us)
    from lost
    union all
    select leaf, device_id, run_id, hour_us, 'gap', least(lost_us - communication_us - stalled_us, gap_us)
    from lost
),
claimed as (
    select
        leaf,
        hour_us,
        list({'device_id': device_id, 'run_id': run_id, 'hour_us': hour_us, 'bucket': bucket, 'us': us}) as claims
    from part
    where us > 0
    group by leaf, hour_us
),
-- Links that make errors are what a fabric suffers from.
health as (
    select
        s.leaf,
        x.hour_us,
        sum(x.nvlink_errors) as nvlink_errors,
        sum(x.pcie_replays) as pcie_replays,
        count(*) filter (where x.fabric_health_summary in (2, 3)) as unhealthy_gpus
    from device_hour x
    join whole_device d using (device_id)
    join switch s
        on s.node = d.node
        and coalesce(s.valid_from_us <= x.hour_us, true) and coalesce(s.valid_until_us > x.hour_us, true)
    where x.cluster = $cluster and x.hour_us >= $since_us and x.hour_us < $until_us
        and s.leaf in (select leaf from congested)
    group by s.leaf, x.hour_us
)
select
    'pool' as subject_kind,
    c.leaf as subject_id,
    'leaf switch ' || c.leaf as subject_name,
    c.hour_us as start_us,
    c.hour_us + 3600000000 as end_us,
    case
        when coalesce(h.nvlink_errors, 0) > 0 or coalesce(h.unhealthy_gpus, 0) > 0 then $confidence_errors
        else $confidence_alone
    end as confidence,
    c.device_ids,
    c.nodes,
    k.claims,
    map {
        'gangs': c.gangs::double,
        'fallen_gangs': c.fallen_gangs::double,
        'devices': len(c.device_ids)::double,
        'fall_ratio': c.fall_ratio::double,
        'rise_ratio': c.rise_ratio::double,
        'nvlink_ratio': c.link_ratio::double,
        'usual_nvlink_ratio': c.usual_link_ratio::double,
        'pcie_gb_per_s': c.pcie_bytes_per_s / 1e9,
        'usual_pcie_gb_per_s': c.usual_pcie_bytes_per_s / 1e9,
        'baseline_hours': c.usual_hours::double,
        'nvlink_errors': h.nvlink_errors::double,
        'pcie_replays': h.pcie_replays::double,
        'unhealthy_gpus': h.unhealthy_gpus::double
    } as numbers,
    map {'leaf': c.leaf} as words
from congested c
left join claimed k using (leaf, hour_us)
left join health h using (leaf, hour_us)
order by c.leaf, c.hour_us;
