-- A row is a GPU and an hour in which it tells that it is broken, held or not: D21 of domain.md 3.2.
-- XIDs 13, 31, 43 and 45 are faults of applications and are never read here. An exporter repeats the last XID until the
-- driver is loaded anew: hours that tell the same follow each other and are one event, which began with the first.
with reading as (
    select
        h.hour_us,
        d.gpu,
        d.node,
        d.pool,
        d.model,
        h.device_id,
        h.xids,
        -- 63 says that a row was remapped: without a pending remap the GPU is as good as before.
        list_intersect(
            h.xids,
            case when h.row_remap_pending = 0 then [48, 64, 74, 79, 94, 95, 119, 120, 140, 149]
                else [48, 63, 64, 74, 79, 94, 95, 119, 120, 140, 149] end
        ) as codes,
        list_min([h.xid_first_us[list_position(h.xids, x)] for x in codes]) as xid_first_us,
        h.row_remap_pending,
        h.row_remap_failed,
        h.ecc_dbe_count,
        h.memory_unrepairable,
        h.remapped_uncorrectable_rows,
        h.pcie_lanes_seen_max,
        h.pcie_lanes_max
    from device_hour h
    join device d on d.device_id = h.device_id and d.cluster = h.cluster
    where h.cluster = $cluster and h.hour_us >= $from_us and h.hour_us < $until_us
),
-- Slices of a GPU repeat what is said of the card; a XID is told of each of them.
card as (
    select
        hour_us,
        gpu,
        any_value(node) as node,
        any_value(pool) as pool,
        any_value(model) as model,
        list(device_id) as device_ids,
        list_sort(list_distinct(flatten(list(codes) filter (where len(codes) > 0)))) as codes,
        min(xid_first_us) as xid_first_us,
        max(row_remap_pending) as row_remap_pending,
        max(row_remap_failed) as row_remap_failed,
        max(ecc_dbe_count) as ecc_dbe_count,
        max(memory_unrepairable) as memory_unrepairable,
        max(remapped_uncorrectable_rows) as remapped_uncorrectable_rows,
        max(pcie_lanes_seen_max) as pcie_lanes,
        max(pcie_lanes_max) as pcie_lanes_max
    from reading
    group by hour_us, gpu
),
-- GPUs that all have few lanes were built so: one is narrow where most of the same model and pool have more, and another
-- of its node has.
beside as (
    select
        *,
        quantile_disc(pcie_lanes, 0.5) over alike as usual_lanes,
        count(pcie_lanes) over alike as alike_gpus,
        count(pcie_lanes) over (partition by hour_us, node) = 1
        or max(pcie_lanes) over (partition by hour_us, node) > pcie_lanes as is_odd
    from card
    window alike as (partition by hour_us, pool, model)
),
worked as (
    select
        d.gpu,
        l.hour_us,
        sum(l.communication_us + l.stalled_us + l.below_roof_us + l.memory_roof_us + l.compute_us) as work_us
    from ledger_hour l
    join device d on d.device_id = l.device_id and d.cluster = l.cluster
    join beside b on b.gpu = d.gpu and b.hour_us = l.hour_us and b.pcie_lanes < b.pcie_lanes_max
    where l.cluster = $cluster and l.hour_us >= $from_us and l.hour_us < $until_us
    group by d.gpu, l.hour_us
),
-- An idle link may be made narrow to save power, and one hour may be a retrained link: two hours of work in a row count.
narrow as (
    select
        b.gpu,
        b.hour_us,
        b.pcie_lanes < least(b.usual_lanes, b.pcie_lanes_max)
        and b.alike_gpus >= $alike_gpus_min
        and b.is_odd
        and w.work_us >= $work_us_min as is_narrow,
        coalesce(
            is_narrow and lag(b.hour_us) over by_gpu = b.hour_us - 3600000000 and lag(is_narrow) over by_gpu, false
        ) as is_lasting
    from beside b
    join worked w on w.gpu = b.gpu and w.hour_us = b.hour_us
    window by_gpu as (partition by b.gpu order by b.hour_us)
),
told as (
    select
        b.* exclude (codes),
        coalesce(b.codes, []) as codes,
        coalesce(n.is_lasting, false) as is_narrow,
        coalesce(
            b.row_remap_pending > 0 or b.row_remap_failed > 0 or b.ecc_dbe_count > 0 or b.memory_unrepairable > 0
            or b.remapped_uncorrectable_rows >= $remapped_rows_max,
            false
        ) as is_state,
        false as is_gone
    from beside b
    left join narrow n on n.gpu = b.gpu and n.hour_us = b.hour_us
),
-- A GPU that has fallen off the bus is read no more: it stays broken until it is read again.
fallen as (
    select d.gpu, h.hour_us, lead(h.hour_us) over (partition by d.gpu order by h.hour_us) as next_us, h.is_fall
    from (
        select device_id, hour_us, coalesce(list_contains(xids, 79), false) as is_fall
        from device_hour
        where cluster = $cluster and hour_us >= $since_us - $remembered_us and hour_us < $until_us
            and device_id in (
                select k.device_id
                from device_hour f
                join device g on g.device_id = f.device_id and g.cluster = f.cluster
                join device k on k.gpu = g.gpu and k.cluster = g.cluster
                where f.cluster = $cluster and f.hour_us >= $since_us - $remembered_us and f.hour_us < $until_us
                    and list_contains(f.xids, 79)
            )
    ) h
    join device d on d.device_id = h.device_id and d.cluster = $cluster
    qualify row_number() over (partition by d.gpu, h.hour_us order by h.is_fall desc) = 1
),
silent as (
    select
        gpu,
        unnest(range(hour_us + 3600000000, least(coalesce(next_us, $until_us), $until_us), 3600000000)) as hour_us
    from fallen
    where is_fall
),
sick as (
    select
        gpu,
        hour_us,
        codes,
        xid_first_us,
        is_state,
        is_narrow,
        is_gone,
        row_remap_pending,
        row_remap_failed,
        ecc_dbe_count,
        memory_unrepairable,
        remapped_uncorrectable_rows,
        case when is_narrow then pcie_lanes end as pcie_lanes,
        case when is_narrow then usual_lanes end as usual_lanes,
        device_ids
    from told
    where len(codes) > 0 or is_state or is_narrow
    union all
    select gpu, hour_us, [79], null, false, false, true, null, null, null, null, null, null, null, null
    from silent
    where hour_us >= $from_us
),
begun as (
    select
        *,
        coalesce(lag(hour_us) over (partition by gpu order by hour_us) < hour_us - 3600000000, true) as begins
    from sick
),
spanned as (
    select
        *,
        case when begins and not is_state and not is_narrow then greatest(xid_first_us, hour_us) else hour_us end
            as start_us,
        -- Of the first hour only what is known to lie after the event is claimed.
        case
            when not begins then 3600000000
            when is_state or is_narrow then 0
            else hour_us + 3600000000 - greatest(xid_first_us, hour_us)
        end as after_us
    from begun
    where hour_us >= $since_us and hour_us < $until_us and hour_us < $known_until_us
),
booked as (
    select
        s.gpu,
        s.hour_us,
        l.device_id,
        l.run_id,
        s.after_us,
        sum(l.out_of_service_us) as out_of_service,
        -- Held time is lost where the GPU did nothing else in that hour: one that works on is not.
        case
            when not s.is_narrow and sum(l.communication_us + l.below_roof_us + l.memory_roof_us + l.compute_us) = 0
                then [sum(l.unobserved_us), sum(l.hoarded_us), sum(l.gap_us), sum(l.stalled_us)]
            else [0, 0, 0, 0]
        end as lost
    from spanned s
    join device d on d.gpu = s.gpu and d.cluster = $cluster
    join ledger_hour l on l.cluster = $cluster and l.device_id = d.device_id and l.hour_us = s.hour_us
    where l.hour_us >= $since_us and l.hour_us < $until_us
    group by s.gpu, s.hour_us, l.device_id, l.run_id, s.after_us, s.is_narrow
),
part as (
    select
        gpu,
        hour_us,
        device_id,
        run_id,
        unnest(['out_of_service', 'unobserved', 'hoarded', 'gap', 'stalled']) as bucket,
        unnest([out_of_service] || lost) as us,
        after_us
    from booked
),
claimed as (
    select
        gpu,
        hour_us,
        list(distinct device_id) as device_ids,
        list({
            'device_id': device_id,
            'run_id': run_id,
            'hour_us': hour_us,
            'bucket': bucket,
            'us': greatest(us - (3600000000 - after_us), 0)::bigint
        }) filter (where us > 3600000000 - after_us) as claims
    from part
    group by gpu, hour_us
),
named as (
    select
        s.*,
        c.claims,
        coalesce(s.device_ids, c.device_ids) as devices,
        list_transform(s.codes, lambda x: 'XID ' || x || case x
            when 48 then ' (double-bit ECC error)'
            when 63 then ' (row remapping recorded)'
            when 64 then ' (row remapping failed)'
            when 74 then ' (NVLink error)'
            when 79 then ' (fallen off the bus)'
            when 94 then ' (contained memory error)'
            when 95 then ' (uncontained memory error)'
            when 119 then ' (GSP timeout)'
            when 120 then ' (GSP error)'
            when 140 then ' (unrecovered ECC error)'
            else ' (NVLink fault)'
        end)
        || case when s.row_remap_pending > 0 then ['row remap pending'] else [] end
        || case when s.row_remap_failed > 0 then ['row remap failed'] else [] end
        || case when s.ecc_dbe_count > 0 then ['double-bit ECC errors'] else [] end
        || case when s.memory_unrepairable > 0 then ['memory not repairable'] else [] end
        || case when s.remapped_uncorrectable_rows >= $remapped_rows_max then ['too many remapped rows'] else [] end
        || case when s.is_narrow then ['PCIe x' || s.pcie_lanes || ' where others have x' || s.usual_lanes] else [] end
            as signs,
        len(list_intersect(s.codes, [48, 64, 74, 79, 94, 95, 119, 120, 140])) > 0
        or coalesce(
            s.row_remap_pending > 0 or s.row_remap_failed > 0 or s.ecc_dbe_count > 0 or s.memory_unrepairable > 0, false
        ) as is_critical
    from spanned s
    left join claimed c on c.gpu = s.gpu and c.hour_us = s.hour_us
    -- A GPU that the fleet no longer has is not missed.
    where not s.is_gone or c.gpu is not null
)
select
    'gpu' as subject_kind,
    gpu as subject_id,
    start_us,
    greatest(least(hour_us + 3600000000, $known_until_us), start_us + 1) as end_us,
    case when is_gone then hour_us + 3600000000 >= $known_until_us end as still,
    case
        when is_critical then 'critical'
        when list_contains(codes, 149) or coalesce(remapped_uncorrectable_rows >= $remapped_rows_max, false) then 'high'
        else 'medium'
    end as severity,
    case when is_critical then 1.0 when is_narrow then 0.8 else 0.7 end as confidence,
    devices as device_ids,
    map {
        'xid': codes[1]::double,
        'row_remap_pending': row_remap_pending::double,
        'row_remap_failed': row_remap_failed::double,
        'ecc_dbe_count': ecc_dbe_count::double,
        'memory_unrepairable': memory_unrepairable::double,
        'remapped_uncorrectable_rows': remapped_uncorrectable_rows::double,
        'pcie_lanes': pcie_lanes::double,
        'pcie_lanes_usual': usual_lanes::double,
        'silent_hours': case when is_gone then 1.0 else 0.0 end
    } as numbers,
    map {'signs': array_to_string(signs, ', ')} as words,
    claims
from named
order by hour_us, gpu;
