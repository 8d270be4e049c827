-- A row is an hour of a device of a job whose kernels are too small for it, for two hours or longer.
-- Hours reported by false-utilization, and those next to them, are left to it: one cause, one finding.
with false_utilization_hour as (
    select distinct j.chain, v.hour_us + next_us as hour_us, unnest(v.device_ids) as device_id
    from verdict v
    join job_chain j on j.job_id = v.subject_id and j.chain_start_us = v.cause_us
    cross join unnest([-3600000000, 0, 3600000000]) as hours (next_us)
    where v.cluster = $cluster and v.detector = 'false-utilization' and v.subject_kind = 'job'
        and v.hour_us >= $since_us - 3600000000 and v.hour_us < $until_us + 3600000000
),
-- Only hours in which a device is active and few of its SMs are, and spans with such a window: most of a fleet is left out here.
candidate as (
    select distinct h.device_id, h.run_id
    from (
        select distinct device_id, segment_start_us
        from device_window
        where cluster = $cluster and hour_us >= $since_us and hour_us < $until_us
            and covered_us >= $coverage_min * 300000000
            and coalesce(gr_engine_ratio, gpu_util_ratio) >= $busy_ratio_min
            and sm_active_ratio < $sm_active_max
            and coalesce(sm_occupancy_ratio < $occupancy_max, true)
            and not coalesce(throttled, false)
    ) w
    join held h on h.device_id = w.device_id and h.start_us = w.segment_start_us
    where (h.device_id, h.run_id) in (
        select (device_id, run_id)
        from workload_hour
        where cluster = $cluster and hour_us >= $since_us and hour_us < $until_us and sm_active_ratio < $sm_active_max
            and fb_used_max_bytes is not null
    )
),
memory as (
    select device_id, max(fb_total_bytes) as fb_total_bytes
    from device_hour
    where cluster = $cluster and hour_us >= $from_us and hour_us < $until_us
    group by device_id
),
chain_size as (
    select chain, count(distinct device_id) as devices
    from held
    group by chain
),
window_seen as (
    select
        h.chain,
        h.run_id,
        h.device_id,
        z.devices,
        r.roof,
        w.hour_us,
        w.start_us,
        w.covered_us,
        w.sm_active_ratio,
        w.sm_occupancy_ratio,
        w.power_watts / r.tdp_watts as power_ratio,
        w.fb_used_bytes / coalesce(t.fb_total_bytes, case when not r.slice then r.fb_bytes end) as fb_used_ratio,
        coalesce(w.gr_engine_ratio, w.gpu_util_ratio) as gr_engine_ratio,
        {
            'gr': coalesce(w.gr_engine_ratio, w.gpu_util_ratio)::double,
            'sm': w.sm_active_ratio::double,
            'tensor': w.tensor_active_ratio::double,
            'dram': w.dram_active_ratio::double,
            'fp': w.fp_active_ratio::double,
            'link': w.link_ratio::double,
            'pcie': w.pcie_bytes_per_s,
            'gang': z.devices >= 2
        } as reading,
        greatest(
            coalesce(w.tensor_active_ratio / r.roof.tensor, 0),
            coalesce(w.dram_active_ratio / r.roof.dram, 0),
            coalesce(w.fp_active_ratio / r.roof.pipe, 0)
        ) as roof_ratio,
        r.slice,
        h.end_us >= h.run_end_us and not c.ended as to_the_end,
        least(h.end_us, d.last_us) as held_until_us,
        coalesce(w.throttled, false) as throttled
    from device_window w
    join device d on d.device_id = w.device_id
    join candidate a on a.device_id = w.device_id
    join held h on h.device_id = w.device_id and h.start_us = w.segment_start_us and h.run_id = a.run_id
    join job_chain c on c.run_id = h.run_id
    join chain_size z on z.chain = h.chain
    join device_roof r on r.device_id = w.device_id
    left join memory t on t.device_id = w.device_id
    where w.cluster = $cluster and w.hour_us >= $from_us
        -- Windows of the next hour confirm those of an hour.
        and w.hour_us < $until_us + 3600000000
        and h.sure and not c.latency_critical and not c.exempt
        and w.start_us >= h.run_start_us + $warm_up_us
        and w.start_us + 300000000 <= h.end_us - case when c.ended then $cool_down_us else 0 end
        and w.covered_us >= $coverage_min * 300000000
),
classified as (
    select
        *,
        coalesce(
            gr_engine_ratio >= $busy_ratio_min
            and sm_active_ratio < $sm_active_max
            and coalesce(sm_occupancy_ratio < $occupancy_max, true)
            -- Board power does not describe a slice.
            and (slice or power_ratio < $power_ratio_max)
            and fb_used_ratio < $memory_ratio_max
            and roof_ratio < $roof_max
            and not throttled
            and workload_class(reading, roof) in ('small-kernel', 'mixed', 'host')
            -- What the host feeds over PCIe waits for the host.
            and not coalesce(reading.pcie >= roof.host_bytes_per_s, false),
            false
        ) as small
    from window_seen
),
counted as (
    select *, count(case when small then 1 end) over two_hours as small_behind
    from classified
    where (run_id, device_id) in (select (run_id, device_id) from classified where small)
    window two_hours as (
        partition by run_id, device_id order by start_us range between 6900000000 preceding and current row
    )
),
confirmed as (
    select
        *,
        min(case when small_behind >= $windows_min then start_us end) over (
            partition by run_id, device_id order by start_us range between current row and 6900000000 following
        ) as confirmed_us
    from counted
),
guilty as (
    select *
    from confirmed
    -- An hour is evaluated with the data known one hour later.
    where small and confirmed_us < hour_us + 7200000000
        and start_us >= $since_us and start_us < $until_us
        and (chain, device_id, hour_us) not in (select (chain, device_id, hour_us) from false_utilization_hour)
),
bucket_time as (
    select g.run_id, g.device_id, g.hour_us, sum(m.stalled_us) as stalled_us, sum(m.below_roof_us) as below_roof_us
    from guilty g
    join device_minute m
        on m.device_id = g.device_id and m.start_us >= g.start_us and m.start_us < g.start_us + 300000000
        and m.hour_us = g.hour_us
    where m.cluster = $cluster and m.hour_us >= $since_us and m.hour_us < $until_us
    group by g.run_id, g.device_id, g.hour_us
),
small_hour as (
    select
        chain,
        run_id,
        device_id,
        hour_us,
        min(start_us) as start_us,
        max(start_us) + 300000000 as end_us,
        bool_or(to_the_end and start_us + 300000000 >= held_until_us - $still_us) as still,
        count(*) as windows,
        any_value(devices) as devices,
        exact_mean(gr_engine_ratio) as gr_engine_ratio,
        exact_mean(sm_active_ratio) as sm_active_ratio,
        exact_mean(sm_occupancy_ratio) as sm_occupancy_ratio,
        exact_mean(case when not slice then power_ratio end) as power_ratio,
        exact_mean(fb_used_ratio) as fb_used_ratio,
        mode(workload_class(reading, roof)) as workload_class,
        -- (1 - S / .8) of the time, at most half of it.
        exact_sum(covered_us * least(0.5, 1 - sm_active_ratio / $sm_active_good))::bigint as lost_us
    from guilty
    group by chain, run_id, device_id, hour_us
)
select
    s.chain,
    s.start_us,
    s.end_us,
    s.still,
    [s.device_id] as device_ids,
    case when s.sm_occupancy_ratio is null then 0.6 else 0.75 end as confidence,
    map {
        'devices': s.devices::double,
        'windows': s.windows::double,
        'gr_engine_ratio': s.gr_engine_ratio::double,
        'sm_active_ratio': s.sm_active_ratio::double,
        'sm_occupancy_ratio': s.sm_occupancy_ratio::double,
        'power_ratio': s.power_ratio::double,
        'fb_used_ratio': s.fb_used_ratio::double
    } as numbers,
    map {'workload_class': s.workload_class} as words,
    [
        {
            'device_id': s.device_id,
            'run_id': s.run_id,
            'hour_us': s.hour_us,
            'bucket': 'stalled',
            'us': least(b.stalled_us, s.lost_us)
        },
        {
            'device_id': s.device_id,
            'run_id': s.run_id,
            'hour_us': s.hour_us,
            'bucket': 'below_roof',
            'us': least(b.below_roof_us // 2, s.lost_us - least(b.stalled_us, s.lost_us))
        }
    ] as claims
from small_hour s
join bucket_time b using (run_id, device_id, hour_us)
order by s.start_us, s.chain, s.device_id;
