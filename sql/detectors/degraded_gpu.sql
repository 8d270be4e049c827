-- A row is a GPU and an hour in which it reports a hardware fault, held or not.
-- XIDs 13, 31, 43 and 45 are faults of applications and are never read here. An exporter repeats the last XID until the
-- driver is reloaded: consecutive hours with the same report are one event, which began with the first.
with reading as (
    select
        hour_us,
        device_id,
        -- 63: a row was remapped. Without a pending remap the GPU is as good as before.
        list_intersect(
            xids,
            case when row_remap_pending = 0 then [48, 64, 74, 79, 94, 95, 119, 120, 140, 149]
                else [48, 63, 64, 74, 79, 94, 95, 119, 120, 140, 149] end
        ) as codes,
        list_min([xid_first_us[list_position(xids, x)] for x in codes]) as xid_first_us,
        row_remap_pending,
        row_remap_failed,
        ecc_dbe_count,
        memory_unrepairable,
        remapped_uncorrectable_rows
    from device_hour
    where cluster = $cluster and hour_us >= $from_us and hour_us < $until_us
        and (
            len(xids) > 0 or row_remap_pending > 0 or row_remap_failed > 0 or ecc_dbe_count > 0 or memory_unrepairable > 0
            or remapped_uncorrectable_rows >= $remapped_rows_max
        )
),
lanes as (
    select h.hour_us, h.device_id, d.gpu, d.node, d.pool, d.model, h.pcie_lanes_seen_max as lanes, h.pcie_lanes_max as lanes_max
    from device_hour h
    join device d on d.device_id = h.device_id and d.cluster = h.cluster
    where h.cluster = $cluster and h.hour_us >= $from_us and h.hour_us < $until_us and h.pcie_lanes_seen_max > 0
),
thin as (
    select hour_us, gpu, node, pool, model, list(device_id) as device_ids, max(lanes) as lanes
    from lanes
    where lanes < lanes_max
    group by hour_us, gpu, node, pool, model
),
-- GPUs that all have few lanes were built so: one is narrow where most of the same model and pool have more, and another
-- of its node has.
usual as (
    select hour_us, pool, model, quantile_disc(lanes, 0.5) as lanes, count(*) as gpus
    from lanes
    where (hour_us, coalesce(pool, ''), coalesce(model, '')) in (
        select (hour_us, coalesce(pool, ''), coalesce(model, '')) from thin
    )
    group by hour_us, pool, model
),
wide_node as (
    select hour_us, node, max(lanes) as lanes, min(gpu) = max(gpu) as is_alone
    from lanes
    where (hour_us, coalesce(node, '')) in (select (hour_us, coalesce(node, '')) from thin)
    group by hour_us, node
),
odd as (
    select t.*, u.lanes as usual_lanes
    from thin t
    join usual u
        on u.hour_us = t.hour_us and u.pool is not distinct from t.pool and u.model is not distinct from t.model
    join wide_node n on n.hour_us = t.hour_us and n.node is not distinct from t.node
    where t.lanes < u.lanes and u.gpus >= $alike_gpus_min and (n.is_alone or n.lanes > t.lanes)
),
-- Joined before it is summed: summing the whole ledger first takes far longer.
odd_device as materialized (
    select gpu, hour_us, unnest(device_ids) as device_id
    from odd
),
work_hour as materialized (
    select
        o.gpu,
        l.hour_us,
        l.communication_us + l.stalled_us + l.below_roof_us + l.memory_roof_us + l.compute_us as work_us,
        l.gap_us + l.hoarded_us as rest_us,
        l.schedulable_us + l.stranded_us as free_us
    from odd_device o
    join ledger_hour l on l.device_id = o.device_id and l.hour_us = o.hour_us
    where l.cluster = $cluster and l.hour_us >= $from_us and l.hour_us < $until_us
),
worked as (
    select gpu, hour_us, sum(work_us) as work_us, sum(work_us + rest_us + free_us) as seen_us
    from work_hour
    group by gpu, hour_us
),
-- An idle link may be made narrow to save power, and one hour may be a retrained link: two hours of work in a row count.
narrow as (
    select
        o.*,
        coalesce(lag(o.hour_us) over (partition by o.gpu order by o.hour_us) = o.hour_us - 3600000000, false) as is_lasting
    from odd o
    join worked w on w.gpu = o.gpu and w.hour_us = o.hour_us
    where w.seen_us >= $seen_us_min and w.work_us >= $work_ratio_min * w.seen_us
),
-- Slices repeat the readings of their GPU; a XID is reported for each of them.
reported as (
    select
        coalesce(c.hour_us, n.hour_us) as hour_us,
        coalesce(c.gpu, n.gpu) as gpu,
        coalesce(c.device_ids, n.device_ids) as device_ids,
        coalesce(c.codes, []) as codes,
        c.xid_first_us,
        c.row_remap_pending,
        c.row_remap_failed,
        c.ecc_dbe_count,
        c.memory_unrepairable,
        c.remapped_uncorrectable_rows,
        coalesce(
            c.row_remap_pending > 0 or c.row_remap_failed > 0 or c.ecc_dbe_count > 0 or c.memory_unrepairable > 0
            or c.remapped_uncorrectable_rows >= $remapped_rows_max,
            false
        ) as is_state,
        n.gpu is not null as is_narrow,
        n.lanes as pcie_lanes,
        n.usual_lanes
    from (
        select
            r.hour_us,
            d.gpu,
            list(r.device_id) as device_ids,
            list_sort(list_distinct(flatten(list(r.codes) filter (where len(r.codes) > 0)))) as codes,
            min(r.xid_first_us) as xid_first_us,
            max(r.row_remap_pending) as row_remap_pending,
            max(r.row_remap_failed) as row_remap_failed,
            max(r.ecc_dbe_count) as ecc_dbe_count,
            max(r.memory_unrepairable) as memory_unrepairable,
            max(r.remapped_uncorrectable_rows) as remapped_uncorrectable_rows
        from reading r
        join device d on d.device_id = r.device_id and d.cluster = $cluster
        group by r.hour_us, d.gpu
    ) c
    full join (select * from narrow where is_lasting) n on n.gpu = c.gpu and n.hour_us = c.hour_us
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
    select *, false as is_gone
    from reported
    where len(codes) > 0 or is_state or is_narrow
    union all by name
    select
        gpu,
        hour_us,
        [79] as codes,
        false as is_state,
        false as is_narrow,
        true as is_gone
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
sick_device as materialized (
    select s.gpu, s.hour_us, s.after_us, s.is_narrow, d.device_id
    from spanned s
    join device d on d.gpu = s.gpu and d.cluster = $cluster
),
booked_row as materialized (
    select s.gpu, s.after_us, s.is_narrow, l.*
    from sick_device s
    join ledger_hour l on l.device_id = s.device_id and l.hour_us = s.hour_us
    where l.cluster = $cluster and l.hour_us >= $since_us and l.hour_us < $until_us
),
bucket_time as (
    select
        gpu,
        hour_us,
        device_id,
        run_id,
        after_us,
        sum(out_of_service_us) as out_of_service,
        -- Held time is lost where the GPU did nothing else in that hour: one that works on is not.
        case
            when not is_narrow and sum(communication_us + below_roof_us + memory_roof_us + compute_us) = 0
                then [sum(unobserved_us), sum(hoarded_us), sum(gap_us), sum(stalled_us)]
            else [0, 0, 0, 0]
        end as lost
    from booked_row
    group by gpu, hour_us, device_id, run_id, after_us, is_narrow
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
    from bucket_time
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
    least(
        hour_us + 3600000000,
        -- An error in the last sample lasts as long as the fleet owned the GPU by that sample.
        case
            when start_us < $known_until_us then $known_until_us
            else (
                select max(c.end_us) from capacity c where c.cluster = $cluster and list_contains(n.devices, c.device_id)
            )
        end
    ) as end_us,
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
from named n
order by hour_us, gpu;
