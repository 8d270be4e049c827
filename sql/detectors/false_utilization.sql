-- A row is an hour of a device of a job that reports busy while few of its SMs work, or while its SMs only wait in a loop.
-- Five-minute windows of one device and one run are evaluated, without the first minutes of a run and its last two.
with chain_size as (
    select chain, count(distinct device_id) as devices
    from held
    group by chain
),
window_seen as (
    select
        h.chain,
        h.run_id,
        h.device_id,
        w.hour_us,
        w.start_us,
        coalesce(w.gpu_util_ratio >= $busy_ratio_min, false) or coalesce(w.gr_engine_ratio >= $busy_ratio_min, false) as busy,
        w.gr_engine_ratio,
        w.gpu_util_ratio,
        w.sm_active_ratio,
        w.tensor_active_ratio,
        w.dram_active_ratio,
        w.fp_active_ratio,
        w.pcie_bytes_per_s,
        w.link_ratio,
        w.throttled,
        -- Board power is no evidence about a slice.
        case when not r.slice then w.power_watts / r.tdp_watts end as power_ratio,
        r.roof,
        greatest(
            coalesce(w.tensor_active_ratio / r.roof.tensor, 0),
            coalesce(w.dram_active_ratio / r.roof.dram, 0),
            coalesce(w.fp_active_ratio / r.roof.pipe, 0)
        ) as roof_ratio,
        h.end_us >= h.run_end_us and not c.ended as to_the_end,
        least(h.end_us, d.last_us) as held_until_us,
        z.devices as chain_devices
    from device_window w
    join device d on d.device_id = w.device_id
    join device_roof r on r.device_id = w.device_id
    join held h
        on h.device_id = w.device_id and h.start_us = w.segment_start_us
    join job_chain c on c.run_id = h.run_id
    join chain_size z on z.chain = h.chain
    where w.cluster = $cluster and w.hour_us >= $from_us
        -- Windows of the next hour confirm the last ones of an hour.
        and w.hour_us < $until_us + 3600000000
        and h.sure and w.start_us >= h.start_us and not c.latency_critical and not c.exempt
        and w.start_us >= h.run_start_us + $warm_up_us
        and w.start_us + 300000000 <= greatest(h.end_us - case when c.ended then $cool_down_us else 0 end, 0)
        and w.covered_us >= $coverage_min * 300000000
),
classified as (
    select
        *,
        coalesce(
            busy
            and sm_active_ratio < $sm_active_max
            -- Memory-bound work, work near any roof, waiting on links, and clocks held down by power or heat are not it.
            -- Without DRAM and pipe readings it cannot be ruled out.
            and dram_active_ratio / roof.dram < $memory_bound_min
            and coalesce(tensor_active_ratio, fp_active_ratio) is not null
            and roof_ratio < $roof_max
            and not coalesce(link_ratio >= $link_ratio_min, false)
            -- A gang may wait on a network that no GPU counter sees: it goes over PCIe.
            and not (chain_devices >= 2 and coalesce(pcie_bytes_per_s >= $network_bytes_per_s_min, false))
            and not coalesce(throttled, false),
            false
        ) as few_sms,
        -- The SMs are occupied and do nothing that takes power. INT and FP64 work, which no tensor or DRAM reading shows, does.
        coalesce(
            busy
            and sm_active_ratio >= $sm_active_max
            and tensor_active_ratio < $spin_tensor_max
            and dram_active_ratio < $spin_dram_max
            and coalesce(fp_active_ratio < $spin_dram_max, true)
            and power_ratio < $spin_power_ratio_max
            and not coalesce(link_ratio >= $link_ratio_min, false)
            and not coalesce(throttled, false),
            false
        ) as spins,
        -- A gang in which neither links nor memory move anything.
        coalesce(
            chain_devices >= 2
            and tensor_active_ratio < $spin_tensor_max
            and dram_active_ratio < $spin_dram_max
            and coalesce(link_ratio < $hung_link_ratio_max, true)
            and pcie_bytes_per_s < $hung_pcie_bytes_per_s_max,
            false
        ) as still_gang,
        few_sms or spins as low_sm
    from window_seen
),
-- Most windows have enough SM activity: neighbours are only examined for devices with a low one.
counted as (
    select
        *,
        count(case when low_sm then 1 end) over half_hour as low_sm_behind
    from classified
    where (run_id, device_id) in (select (run_id, device_id) from classified where low_sm)
    window half_hour as (
        partition by run_id, device_id order by start_us range between 1500000000 preceding and current row
    )
),
-- The windows of every half hour in which at least three quarters have low SM activity.
verdict_window as (
    select
        *,
        max(case when low_sm and low_sm_behind >= $windows_min then start_us end) over (
            partition by run_id, device_id order by start_us range between current row and 1500000000 following
        ) as confirmed_us
    from counted
),
guilty as (
    select *
    from verdict_window
    where low_sm and confirmed_us is not null and start_us >= $since_us and start_us < $until_us
),
lost as (
    select
        g.run_id,
        g.device_id,
        g.hour_us,
        sum(m.stalled_us) as stalled_us,
        sum(m.below_roof_us) as below_roof_us
    from guilty g
    join device_minute m
        on m.device_id = g.device_id and m.start_us >= g.start_us and m.start_us < g.start_us + 300000000
        and m.hour_us = g.hour_us
    where m.cluster = $cluster and m.hour_us >= $since_us and m.hour_us < $until_us
    group by g.run_id, g.device_id, g.hour_us
),
claimed as (
    select
        g.chain,
        l.device_id,
        l.hour_us,
        list({
            'device_id': l.device_id,
            'run_id': l.run_id,
            'hour_us': l.hour_us,
            'bucket': 'stalled',
            'us': l.stalled_us
        })
        || list({
            'device_id': l.device_id,
            'run_id': l.run_id,
            'hour_us': l.hour_us,
            'bucket': 'below_roof',
            'us': l.below_roof_us // 2
        }) as claims
    from lost l
    join (select distinct run_id, chain from guilty) g using (run_id)
    group by g.chain, l.device_id, l.hour_us
),
hollow_hour as (
    select
        g.chain,
        g.device_id,
        g.hour_us,
        arg_max(g.run_id, (g.start_us, g.run_id)) as run_id,
        min(g.start_us) as start_us,
        max(g.start_us) + 300000000 as end_us,
        bool_or(g.to_the_end and g.start_us + 300000000 >= g.held_until_us - $still_us) as still,
        count(*) as windows,
        any_value(g.chain_devices) as devices,
        exact_mean(g.gr_engine_ratio) as gr_engine_ratio,
        exact_mean(g.gpu_util_ratio) as gpu_util_ratio,
        exact_mean(g.sm_active_ratio) as sm_active_ratio,
        exact_mean(g.tensor_active_ratio) as tensor_active_ratio,
        exact_mean(g.dram_active_ratio) as dram_active_ratio,
        exact_mean(g.roof_ratio) as roof_ratio,
        exact_mean(g.power_ratio) as power_ratio,
        2 * count(*) filter (where g.spins) > count(*) as spins,
        2 * count(*) filter (where g.still_gang) > count(*) as still_gang,
        workload_class(
            {
                'gr': exact_mean(coalesce(g.gr_engine_ratio, g.gpu_util_ratio)),
                'sm': exact_mean(g.sm_active_ratio),
                'tensor': exact_mean(g.tensor_active_ratio),
                'dram': exact_mean(g.dram_active_ratio),
                'fp': exact_mean(g.fp_active_ratio),
                'link': exact_mean(g.link_ratio),
                'pcie': exact_mean(g.pcie_bytes_per_s),
                'gang': any_value(g.chain_devices) >= 2
            },
            any_value(g.roof)
        ) as workload_class
    from guilty g
    group by g.chain, g.device_id, g.hour_us
),
-- When a job was first seen working.
worked as (
    select j.chain, min(w.hour_us) as from_us
    from workload_hour w
    join job_chain j using (run_id)
    where w.cluster = $cluster and w.hour_us < $until_us
        and w.workload_class in ('compute-tensor', 'compute-other', 'memory-bandwidth', 'mixed', 'communication')
        and j.chain in (select chain from hollow_hour where still_gang)
    group by j.chain
),
server as (
    select distinct chain
    from job_chain
    where chain in (select chain from hollow_hour)
        and (
            coalesce(
                lower(coalesce(labels ->> '$."gpuwatch.io/workload-class"', labels ->> '$."workload-class"'))
                in ('inference', 'serving'),
                false
            )
            or coalesce(
                json_exists(labels, '$."serving.kserve.io/inferenceservice"') or json_exists(labels, '$."ray.io/serve"'), false
            )
        )
)
select
    h.chain,
    h.start_us,
    h.end_us,
    h.still,
    [h.device_id] as device_ids,
    map {
        'devices': h.devices::double,
        'windows': h.windows::double,
        'gr_engine_ratio': h.gr_engine_ratio,
        'gpu_util_ratio': h.gpu_util_ratio,
        'sm_active_ratio': h.sm_active_ratio,
        'tensor_active_ratio': h.tensor_active_ratio,
        'dram_active_ratio': h.dram_active_ratio,
        'roof_ratio': h.roof_ratio,
        'power_ratio': h.power_ratio
    } as numbers,
    map {
        'workload_class': h.workload_class,
        'cause': case
            when h.still_gang and w.from_us < h.start_us then 'hung'
            when h.spins then 'spin'
            when v.chain is not null then 'server'
            when h.workload_class = 'host' then 'host'
            else 'small kernels'
        end
    } as words,
    c.claims
from hollow_hour h
join claimed c using (chain, device_id, hour_us)
left join worked w on w.chain = h.chain
left join server v on v.chain = h.chain
where h.workload_class not in ('memory-bandwidth', 'communication')
order by h.start_us, h.chain, h.device_id;
