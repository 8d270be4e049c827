-- A row is a job, a run of it and an hour in which one GPU of the gang was slow and the others waited for it.
-- The slow one computes longer than the rest of its gang (the same work takes it more of the time), most of
-- the time, with a known cause: a low clock, hardware slowdown, heat, a narrow PCIe link or NVLink errors that the
-- others have not. Uneven work without such a cause (stages of a pipeline, experts, rank 0) is not reported.
with gang_run as (
    select run_id, chain, start_us, case when ended then end_us end as end_us
    from job_chain
    where end_us > $from_us and start_us < $until_us
        and not exempt
        and not latency_critical
        and not coalesce(
            lower(coalesce(labels ->> '$."gpuwatch.io/parallelism"', labels ->> '$.parallelism')) in (
                'pipeline', 'pp', 'moe', 'expert', 'parameter-server', 'trials', 'independent', 'none'
            ),
            false
        )
        and not coalesce(
            lower(coalesce(labels ->> '$."gpuwatch.io/workload-class"', labels ->> '$."workload-class"')) in (
                'hpo', 'inference', 'serving', 'batch-inference', 'independent-trials', 'embarrassingly-parallel'
            ),
            false
        )
),
sized as (
    select h.run_id
    from held h
    join gang_run r using (run_id)
    join device d on d.device_id = h.device_id and d.cluster = $cluster
    group by h.run_id
    having count(distinct h.device_id) >= $gang_gpus_min
        and count(distinct d.model) = 1
        and bool_and(h.sure and h.share_num = h.share_den and d.gi < 0 and d.model is not null)
),
seen as (
    select
        h.run_id,
        h.device_id,
        w.start_us,
        w.tensor_active_ratio,
        w.sm_active_ratio,
        w.sm_clock_mhz,
        w.gpu_temp_celsius,
        w.throttled
    from device_window w
    join held h on h.device_id = w.device_id and h.start_us = w.segment_start_us
    join sized z using (run_id)
    join gang_run r using (run_id)
    where w.cluster = $cluster and w.hour_us >= $from_us and w.hour_us < $until_us
        and w.covered_us >= $coverage_min * 300000000
        and w.start_us >= r.start_us + $warm_up_us
        and w.start_us + 300000000 <= coalesce(r.end_us - $cool_down_us, w.start_us + 300000000)
),
-- Tensor activity measures work; a gang that does not use tensor cores is compared by SM activity.
gang as (
    select
        run_id,
        start_us,
        count(*) as gpus,
        case
            when count(tensor_active_ratio) = count(*) and median(tensor_active_ratio) >= $work_ratio_min then 'tensor'
            when count(sm_active_ratio) = count(*) and median(sm_active_ratio) >= $work_ratio_min then 'sm'
        end as measure,
        case when measure = 'tensor' then median(tensor_active_ratio) else median(sm_active_ratio) end as middle,
        case when measure = 'tensor' then mad(tensor_active_ratio) else mad(sm_active_ratio) end as spread,
        median(sm_clock_mhz) as clock_mhz,
        median(gpu_temp_celsius) as temp_celsius,
        exact_mean(throttled::integer) as throttled_ratio
    from seen
    group by run_id, start_us
    having count(*) >= $gang_gpus_min and measure is not null
),
-- What the card negotiated of what it can, by the hour: each generation doubles a lane.
port as (
    select
        s.run_id,
        s.hour_us,
        s.device_id,
        x.pcie_lanes_seen_max / x.pcie_lanes_max * pow(2, x.pcie_gen_seen_max - x.pcie_gen_max) as pcie_ratio,
        x.nvlink_errors
    from (select distinct run_id, device_id, start_us // 3600000000 * 3600000000 as hour_us from seen) s
    join device_hour x on x.cluster = $cluster and x.hour_us = s.hour_us and x.device_id = s.device_id
),
usual as (
    select run_id, hour_us, median(pcie_ratio) as pcie_ratio, median(nvlink_errors) as nvlink_errors
    from port
    group by run_id, hour_us
),
compared as (
    select
        s.*,
        g.gpus,
        g.measure,
        g.middle,
        g.clock_mhz as gang_clock_mhz,
        g.temp_celsius as gang_temp_celsius,
        case when g.measure = 'tensor' then s.tensor_active_ratio else s.sm_active_ratio end as busy,
        (busy - g.middle) / greatest(g.spread, $noise_ratio) as score,
        1 - g.middle / nullif(busy, 0) as loss_ratio,
        coalesce(s.sm_clock_mhz < $clock_ratio_max * g.clock_mhz, false) as slow_clock,
        coalesce(s.throttled and g.throttled_ratio < 0.5, false) as held_down,
        coalesce(s.gpu_temp_celsius > g.temp_celsius + $hotter_celsius_min, false) as hot,
        coalesce(p.pcie_ratio < 1 and p.pcie_ratio < u.pcie_ratio, false) as narrow,
        coalesce(p.nvlink_errors > 0 and u.nvlink_errors = 0, false) as faulty
    from seen s
    join gang g using (run_id, start_us)
    left join port p
        on p.run_id = s.run_id and p.device_id = s.device_id and p.hour_us = s.start_us // 3600000000 * 3600000000
    left join usual u on u.run_id = p.run_id and u.hour_us = p.hour_us
),
suspected as (
    select *
    from compared
    where score >= $score_min and loss_ratio >= $loss_ratio_min and (slow_clock or held_down or hot or narrow or faulty)
),
counted as (
    select
        *,
        count(*) over (
            partition by run_id, device_id order by start_us range between 900000000 preceding and current row
        ) as slow_behind
    from suspected
),
confirmed as (
    select
        *,
        max(slow_behind) over (
            partition by run_id, device_id order by start_us range between current row and 900000000 following
        ) as slow_round
    from counted
),
guilty as (
    select *
    from confirmed
    where slow_round >= $windows_min and start_us >= $since_us and start_us < $until_us
),
-- Of several slow ones the gang waits for the slowest.
waited as (
    select
        run_id,
        start_us,
        start_us // 3600000000 * 3600000000 as hour_us,
        least(max(loss_ratio), $loss_ratio_max) as loss_ratio
    from guilty
    group by run_id, start_us
),
hourly as (
    select run_id, hour_us, sum(loss_ratio * 300000000) as lost_us, count(*) as windows
    from waited
    group by run_id, hour_us
),
bucket_time as (
    select
        l.device_id,
        l.run_id,
        l.hour_us,
        floor(any_value(h.lost_us))::bigint as lost_us,
        sum(l.communication_us)::bigint as communication_us,
        sum(l.stalled_us)::bigint as stalled_us,
        sum(l.gap_us)::bigint as gap_us,
        sum(l.below_roof_us)::bigint as below_roof_us
    from ledger_hour l
    join hourly h using (run_id, hour_us)
    where l.cluster = $cluster and l.hour_us >= $since_us and l.hour_us < $until_us
        and (l.run_id, l.hour_us, l.device_id) not in (select (run_id, start_us // 3600000000 * 3600000000, device_id) from guilty)
    group by all
),
-- The others wait in a collective: in communication as far as bytes show it, else busy without SMs, idle, or below the roof.
part as (
    select run_id, hour_us, device_id, 'communication' as bucket, least(lost_us, communication_us) as us
    from bucket_time
    union all
    select run_id, hour_us, device_id, 'stalled', least(lost_us - communication_us, stalled_us)
    from bucket_time
    union all
    select run_id, hour_us, device_id, 'gap', least(lost_us - communication_us - stalled_us, gap_us)
    from bucket_time
    union all
    select
        run_id, hour_us, device_id, 'below_roof', least(lost_us - communication_us - stalled_us - gap_us, below_roof_us)
    from bucket_time
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
found as (
    select
        run_id,
        start_us // 3600000000 * 3600000000 as hour_us,
        min(start_us) as start_us,
        max(start_us) + 300000000 as end_us,
        list(distinct device_id order by device_id) as device_ids,
        arg_max(device_id, (loss_ratio, device_id)) as worst_id,
        max(gpus) as gpus,
        any_value(measure) as measure,
        exact_mean(busy) as busy_ratio,
        exact_mean(middle) as gang_busy_ratio,
        exact_mean(sm_clock_mhz) as sm_clock_mhz,
        exact_mean(gang_clock_mhz) as gang_clock_mhz,
        exact_mean(gpu_temp_celsius) as temp_celsius,
        exact_mean(gang_temp_celsius) as gang_temp_celsius,
        max(score) as score,
        bool_or(slow_clock) as slow_clock,
        bool_or(held_down) as held_down,
        bool_or(hot) as hot,
        bool_or(narrow) as narrow,
        bool_or(faulty) as faulty
    from guilty
    group by all
)
select
    r.chain,
    t.run_id,
    t.start_us,
    t.end_us,
    t.device_ids,
    case when t.slow_clock or t.held_down then $confidence_clock else $confidence_other end as confidence,
    c.claims,
    map {
        'gpus': t.gpus::double,
        'slow_gpus': len(t.device_ids)::double,
        'windows': h.windows::double,
        'busy_ratio': t.busy_ratio::double,
        'gang_busy_ratio': t.gang_busy_ratio::double,
        'sm_clock_mhz': t.sm_clock_mhz::double,
        'gang_sm_clock_mhz': t.gang_clock_mhz::double,
        'temp_celsius': t.temp_celsius::double,
        'gang_temp_celsius': t.gang_temp_celsius::double,
        'score': t.score::double,
        'loss_ratio': h.lost_us / (h.windows * 300000000)
    } as numbers,
    map {
        'gpu': d.gpu,
        'node': d.node,
        'measure': t.measure,
        'causes': array_to_string(
            list_filter(
                [
                    case when t.slow_clock then 'low clock' end,
                    case when t.held_down then 'hardware or thermal slowdown' end,
                    case when t.hot then 'hot' end,
                    case when t.narrow then 'PCIe link below its width or generation' end,
                    case when t.faulty then 'NVLink errors' end
                ],
                lambda cause: cause is not null
            ),
            ', '
        )
    } as words
from found t
join hourly h using (run_id, hour_us)
join gang_run r using (run_id)
join device d on d.cluster = $cluster and d.device_id = t.worst_id
left join claimed c using (run_id, hour_us)
order by r.chain, t.start_us;
