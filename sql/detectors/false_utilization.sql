-- A row is a chain of runs whose GPUs say busy while few SMs hold work: D1 of domain.md 3.2.
-- Five-minute windows of one device and one run are judged; the first minutes of a run and its last two are not.
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
        h.share_num,
        h.share_den,
        w.start_us,
        w.covered_us,
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
        greatest(
            coalesce(w.tensor_active_ratio / $tensor_roof, 0),
            coalesce(w.dram_active_ratio / $dram_roof, 0),
            coalesce(w.fp_active_ratio, 0)
        ) as roof_ratio,
        h.end_us >= h.run_end_us and not c.ended as to_the_end,
        least(h.end_us, d.last_us) as held_until_us,
        z.devices as chain_devices
    from device_window w
    join device d on d.device_id = w.device_id
    join held h
        on h.device_id = w.device_id and h.start_us = w.segment_start_us
    join job_chain c on c.run_id = h.run_id
    join chain_size z on z.chain = h.chain
    where w.cluster = $cluster and h.sure and w.start_us >= h.start_us and not c.latency_critical and not c.exempt
        and w.start_us >= h.run_start_us + $warm_up_us
        and w.start_us + 300000000 <= greatest(h.end_us - case when c.ended then $cool_down_us else 0 end, 0)
        and w.covered_us >= $coverage_min * 300000000
),
judged as (
    select
        *,
        coalesce(
            busy
            and sm_active_ratio < $sm_active_max
            -- Memory-bound work, work near any roof, waiting on links, and clocks held down by power or heat are not it.
            -- Without a DRAM and a pipe reading nobody can say that it is not.
            and dram_active_ratio / $dram_roof < $memory_bound_min
            and coalesce(tensor_active_ratio, fp_active_ratio) is not null
            and roof_ratio < $roof_max
            and not coalesce(link_ratio >= $link_ratio_min, false)
            -- A gang may wait on a network that no GPU counter sees: it goes over PCIe.
            and not (chain_devices >= 2 and coalesce(pcie_bytes_per_s >= $network_bytes_per_s_min, false))
            and not coalesce(throttled, false),
            false
        ) as hollow
    from window_seen
),
counted as (
    select
        *,
        count(*) filter (where hollow) over half_hour as hollow_behind,
        min(start_us) over half_hour as first_us
    from judged
    window half_hour as (
        partition by run_id, device_id order by start_us range between 1500000000 preceding and current row
    )
),
-- The windows of every half hour in which at least three quarters are hollow.
verdict as (
    select
        *,
        max(case when hollow and hollow_behind >= $windows_min then start_us end) over (
            partition by run_id, device_id order by start_us range between current row and 1500000000 following
        ) as confirmed_us
    from counted
),
guilty as (
    select *
    from verdict
    where hollow and confirmed_us is not null
),
lost as (
    select
        g.run_id,
        g.device_id,
        g.start_us,
        sum(m.stalled_us) as stalled_us,
        sum(m.below_roof_us) as below_roof_us
    from guilty g
    join device_minute m
        on m.device_id = g.device_id and m.start_us >= g.start_us and m.start_us < g.start_us + 300000000
        and m.cluster = $cluster and m.hour_us = g.start_us // 3600000000 * 3600000000
    group by g.run_id, g.device_id, g.start_us
)
select
    g.chain,
    min(g.start_us) as started_us,
    max(g.start_us) + 300000000 as ended_us,
    bool_or(g.to_the_end and g.start_us + 300000000 >= g.held_until_us - $still_us) as still,
    g.share_den * 2 as share_den,
    sum((2 * coalesce(l.stalled_us, 0) + coalesce(l.below_roof_us, 0))::hugeint * g.share_num)::varchar as wasted_units,
    case
        when avg(g.gr_engine_ratio) >= 0.9 and avg(g.sm_active_ratio) <= 0.25 and avg(g.roof_ratio) < 0.25 then 0.95
        when avg(g.sm_active_ratio) <= 0.35 then 0.85
        else 0.7
    end as confidence,
    list(distinct g.device_id) as device_ids,
    json_object(
        'hollow_devices', count(distinct g.device_id),
        'devices', any_value(s.devices),
        'windows', count(*),
        'gr_engine_ratio', round(avg(g.gr_engine_ratio), 4),
        'gpu_util_ratio', round(avg(g.gpu_util_ratio), 4),
        'sm_active_ratio', round(avg(g.sm_active_ratio), 4),
        'tensor_active_ratio', round(avg(g.tensor_active_ratio), 4),
        'dram_active_ratio', round(avg(g.dram_active_ratio), 4),
        'cause', case
            when avg(g.pcie_bytes_per_s) >= 1e9 and avg(g.sm_active_ratio) < 0.3 then 'host'
            else 'small kernels'
        end
    )::varchar as evidence
from guilty g
left join lost l using (run_id, device_id, start_us)
join chain_size s on s.chain = g.chain
group by g.chain, g.share_den
order by started_us, g.chain;
