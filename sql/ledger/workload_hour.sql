-- Writes the activity of held devices by device, run and hour; maxima are over five minutes. The class is that of most
-- quarter hours, and NULL if no quarter hour has readings for $coverage_min of its time.
insert into workload_hour
with run_hour as (
    select h.hour_us, s.run_id, count(distinct s.device_id) >= 2 as gang
    from segment s
    join slice_hour h on s.start_us < h.hour_us + 3600000000 and s.end_us > h.hour_us
    where s.cluster = $cluster and s.run_id is not null
        and s.start_us < $slice_until_us and s.end_us > $slice_from_us
    group by h.hour_us, s.run_id
),
owner as materialized (
    select distinct s.device_id, s.start_us, s.run_id, r.hour_us, r.gang
    from segment s
    join run_hour r on r.run_id = s.run_id and s.start_us < r.hour_us + 3600000000 and s.end_us > r.hour_us
    where s.cluster = $cluster and s.start_us < $slice_until_us and s.end_us > $slice_from_us
        and s.device_id between $first_device and $last_device
),
held as (
    select w.*, o.run_id, o.gang
    from device_window w
    join owner o on o.device_id = w.device_id and o.start_us = w.segment_start_us and o.hour_us = w.hour_us
    where w.cluster = $cluster and w.hour_us >= $slice_from_us and w.hour_us < $slice_until_us
        and w.hour_us in (select hour_us from slice_hour) and w.covered_us > 0
),
quarter as (
    select
        hour_us,
        device_id,
        run_id,
        sum(covered_us)::bigint as covered_us,
        exact_mean(sm_active_ratio) as sm_active_ratio,
        max(sm_active_ratio) as sm_active_max_ratio,
        max(tensor_active_ratio) as tensor_active_max_ratio,
        max(dram_active_ratio) as dram_active_max_ratio,
        max(fb_used_bytes) as fb_used_max_bytes,
        exact_mean(link_ratio) as link_ratio,
        exact_mean(pcie_bytes_per_s) as pcie_bytes_per_s,
        {
            'gr': exact_mean(coalesce(gr_engine_ratio, gpu_util_ratio)),
            'sm': exact_mean(sm_active_ratio),
            'tensor': exact_mean(tensor_active_ratio),
            'dram': exact_mean(dram_active_ratio),
            'fp': exact_mean(fp_active_ratio),
            'link': exact_mean(link_ratio),
            'pcie': exact_mean(pcie_bytes_per_s),
            'gang': bool_or(gang)
        } as reading
    from held
    group by hour_us, device_id, run_id, start_us // 900000000
),
classed as (
    select
        q.*,
        case when q.covered_us >= $coverage_min * 900000000 then workload_class(q.reading, d.roof) end as workload_class
    from quarter q
    join device_roof d using (device_id)
),
most as (
    select hour_us, device_id, run_id, arg_max(workload_class, (covered_us, workload_class)) as workload_class
    from (
        select hour_us, device_id, run_id, workload_class, sum(covered_us) as covered_us
        from classed
        where workload_class is not null
        group by all
    )
    group by all
)
select
    $cluster,
    c.hour_us,
    c.device_id,
    c.run_id,
    sum(c.covered_us)::bigint,
    exact_weighted_mean(c.sm_active_ratio, c.covered_us),
    max(c.sm_active_max_ratio),
    max(c.tensor_active_max_ratio),
    max(c.dram_active_max_ratio),
    max(c.fb_used_max_bytes),
    any_value(m.workload_class),
    exact_weighted_mean(c.link_ratio, c.covered_us),
    exact_weighted_mean(c.pcie_bytes_per_s, c.covered_us)
from classed c
left join most m using (hour_us, device_id, run_id)
group by c.hour_us, c.device_id, c.run_id
order by c.hour_us, c.device_id, c.run_id;
