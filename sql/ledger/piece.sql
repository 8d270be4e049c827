-- A row of rhythm is a device and an hour: how far apart its readings are most often, and for how many that is known.
create or replace temp table rhythm as
select
    device_id,
    observed_us // 3600000000 * 3600000000 as hour_us,
    quantile_disc(spacing_us, [0.5, 0.75]) as spread,
    spread[1] as usual_us,
    -- Two scrapers with a small offset make every other spacing short; then the long one counts.
    case when spread[2] > 8 * spread[1] then spread[2] else spread[1] end as interval_us,
    count(spacing_us) as spacings
from beat
group by all;

-- A row of uneven is a reading whose spacing is not the most usual one of its hour. Most scrapers keep their beat.
create or replace temp table uneven as
select b.device_id, b.observed_us, b.spacing_us
from beat b
join rhythm r on r.device_id = b.device_id and r.hour_us = b.observed_us // 3600000000 * 3600000000
where b.spacing_us is distinct from r.usual_us;

drop table beat;

-- A row of pace is a device and an hour: how far apart its samples are, what its model can do, and when it is idle by its power.
create or replace temp table pace as
with quiet as (
    select
        device_id,
        observed_us // 3600000000 * 3600000000 as hour_us,
        quantile_disc(power_watts, 0.05) as quiet_watts
    from (
        select device_id, observed_us, power_watts
        from sample
        where observed_us >= $read_from_us and observed_us < $read_until_us
            and device_id in (select device_id from plain_device)
            and coalesce(gr_engine_ratio, gpu_util_ratio) < 0.02
        union all
        select device_id, observed_us, power_watts
        from reading
        where coalesce(gr_engine_ratio, gpu_util_ratio) < 0.02
    )
    group by all
),
hourly as (
    select r.*, q.quiet_watts
    from rhythm r
    left join quiet q using (device_id, hour_us)
),
known as (
    select
        own.device_id,
        own.hour_us,
        own.usual_us,
        least(
            coalesce(
                case when own.spacings >= 4 then own.interval_us end,
                least(
                    case when before.spacings >= 4 then before.interval_us end,
                    case when after.spacings >= 4 then after.interval_us end
                ),
                $default_interval_us
            ),
            $interval_us_max
        ) as interval_us,
        least(own.quiet_watts, before.quiet_watts, after.quiet_watts) as quiet_watts
    from hourly own
    left join hourly before on before.device_id = own.device_id and before.hour_us = own.hour_us - 3600000000
    left join hourly after on after.device_id = own.device_id and after.hour_us = own.hour_us + 3600000000
)
select
    k.device_id,
    k.hour_us,
    k.usual_us,
    k.interval_us,
    d.first_us,
    d.last_us,
    t.slice,
    t.link_bytes_per_s,
    -- A GPU that was never idle in three hours is compared with the idle power of its model with a context.
    case
        when not t.slice
            then least(k.quiet_watts, coalesce(0.3 * t.tdp_watts, 150)) + greatest(25, 0.08 * coalesce(t.tdp_watts, 0))
    end as idle_watts_max
from known k
join device d using (device_id)
join device_trait t using (device_id);

-- A row of owned_span is the part of an elementary span of a device that lies in one hour: held or not, and by a run
-- that holds several devices in that hour or not. watched: free while a job holds GPUs of its node that no source names.
create or replace temp table owned_span as
with hourly as (
    select
        *,
        unnest(
            range(
                greatest(start_us, $piece_from_us) // 3600000000,
                (least(end_us, $piece_until_us) + 3599999999) // 3600000000
            )
        ) as hour
    from segment
    where cluster = $cluster and start_us < $piece_until_us and end_us > $piece_from_us
),
run_hour as (
    select run_id, hour, count(distinct device_id) as devices
    from hourly
    where run_id is not null
    group by run_id, hour
),
guessed_hour as (
    select distinct d.node, h.hour
    from hourly h
    join device d on d.cluster = $cluster and d.device_id = h.device_id
    where h.estimated and h.run_id is not null and d.node is not null
),
watched_hour as (
    select d.device_id, g.hour
    from guessed_hour g
    join device d on d.cluster = $cluster and d.node = g.node
)
select
    h.device_id,
    h.hour * 3600000000 as hour_us,
    h.start_us as span_us,
    greatest(h.start_us, h.hour * 3600000000) as start_us,
    least(h.end_us, (h.hour + 1) * 3600000000) as end_us,
    bool_or(h.run_id is not null) as held,
    not bool_or(h.run_id is not null) and bool_or(w.device_id is not null) as watched,
    coalesce(max(r.devices), 0) >= 2 as gang
from hourly h
left join run_hour r on r.run_id = h.run_id and r.hour = h.hour
left join watched_hour w on w.device_id = h.device_id and w.hour = h.hour
where h.device_id in (select device_id from reading_device)
group by h.device_id, h.start_us, h.end_us, h.hour;

-- A row of piece is the part of a sample's interval that lies in one held span, with what the device did in it.
-- The interval of a sample reaches back to the sample before it, at most twice the usual spacing; the first and the
-- last sample of a device reach half a spacing outward. Most ten minutes of a device lie in one span: an interval
-- within them finds its span by equality, and the others are cut at the edges.
-- Every reading has a pace; LEFT keeps DuckDB from expecting few readings, for which it would hash them instead of what they join.
create or replace temp table piece as
with whole_cell as (
    select
        device_id,
        unnest(
            range(
                (greatest(start_us, $piece_from_us - 3600000000) + 599999999) // 600000000,
                least(end_us, $piece_until_us + 3600000000) // 600000000
            )
        ) as cell,
        span_us,
        held,
        watched,
        gang
    from owned_span
),
instant as (
    select
        device_id,
        observed_us,
        gr_engine_ratio,
        sm_active_ratio,
        sm_occupancy_ratio,
        tensor_active_ratio,
        dram_active_ratio,
        greatest(fp64_active_ratio, fp32_active_ratio, fp16_active_ratio) as fp_active_ratio,
        gpu_util_ratio,
        fb_used_bytes,
        power_watts,
        nvlink_tx_bytes_per_s + nvlink_rx_bytes_per_s as nvlink_bytes_per_s,
        pcie_tx_bytes_per_s + pcie_rx_bytes_per_s as pcie_bytes_per_s,
        clocks_event_reasons,
        xid_code,
        sm_clock_mhz,
        gpu_temp_celsius
    from sample
    where observed_us >= $piece_from_us - $interval_us_max and observed_us < $piece_until_us + 2 * $interval_us_max
        and device_id in (select device_id from plain_device)
    union all by name
    select * exclude (hour_us, spacing_us)
    from reading
    where observed_us >= $piece_from_us - $interval_us_max and observed_us < $piece_until_us + 2 * $interval_us_max
),
spaced as (
    select
        r.*,
        case when u.device_id is null then p.usual_us else u.spacing_us end as spacing_us,
        p.interval_us,
        p.first_us,
        p.last_us,
        p.slice,
        p.link_bytes_per_s,
        p.idle_watts_max
    from instant r
    left join pace p on p.device_id = r.device_id and p.hour_us = r.observed_us // 3600000000 * 3600000000
    left join uneven u on u.device_id = r.device_id and u.observed_us = r.observed_us
),
timed as (
    select
        *,
        observed_us - case
            when spacing_us is not null then least(spacing_us, 2 * interval_us)
            when first_us = observed_us then interval_us // 2
            else 2 * interval_us
        end as from_us,
        observed_us + case when last_us = observed_us then interval_us // 2 else 0 end as to_us,
        -- NULL if the links were not read or the model's speed is unknown (least() would return 1).
        case
            when not slice and nvlink_bytes_per_s / link_bytes_per_s > 1 then 1
            when not slice then nvlink_bytes_per_s / link_bytes_per_s
        end as link_ratio
    from spaced
)
select
    a.device_id,
    w.span_us,
    coalesce(w.watched, false) as watched,
    coalesce(w.gang, false) as gang,
    a.from_us,
    a.to_us,
    coalesce(a.gr_engine_ratio, case when not a.slice then a.gpu_util_ratio end) as g,
    a.sm_active_ratio,
    a.sm_occupancy_ratio,
    a.tensor_active_ratio,
    a.dram_active_ratio,
    a.fp_active_ratio,
    a.gpu_util_ratio,
    a.fb_used_bytes,
    -- Power is measured per card; every slice's row repeats it.
    case when not a.slice then a.power_watts end as power_watts,
    a.link_ratio,
    a.pcie_bytes_per_s,
    a.clocks_event_reasons & 232 > 0 as throttled,
    a.sm_clock_mhz,
    a.gpu_temp_celsius,
    coalesce(
        coalesce(a.gr_engine_ratio, case when not a.slice then a.gpu_util_ratio end) < 0.02
        and coalesce(a.sm_active_ratio < 0.01, true)
        and coalesce(a.tensor_active_ratio < 0.005, true)
        and coalesce(a.dram_active_ratio < 0.01, true)
        and coalesce(a.power_watts < a.idle_watts_max, true)
        -- Without a power reading GPU_UTIL is the second witness against a profiling counter that is stuck at 0.
        and (a.slice or a.power_watts is not null or coalesce(a.gpu_util_ratio < 0.5, true))
        -- A GPU with a fatal XID is broken, not held idle.
        and coalesce(a.xid_code not in (48, 63, 64, 74, 79, 94, 95, 119, 120, 140), true),
        false
    ) as idle
from timed a
left join whole_cell w
    on w.device_id = a.device_id
    and w.cell = case when a.from_us // 600000000 = (a.to_us - 1) // 600000000 then a.from_us // 600000000 end
where coalesce(w.held or w.watched, true);

-- Those that were not whole stay, without a span.
insert into piece by name
select
    p.* exclude (hour_us) replace (
        s.span_us as span_us,
        s.watched as watched,
        s.gang as gang,
        greatest(p.from_us, s.start_us) as from_us,
        least(p.to_us, s.end_us) as to_us
    )
from (
    select *, unnest(range(from_us // 3600000000, (to_us - 1) // 3600000000 + 1)) * 3600000000 as hour_us
    from piece
    where span_us is null
) p
join owned_span s
    on s.device_id = p.device_id and s.hour_us = p.hour_us and p.from_us < s.end_us and p.to_us > s.start_us
where s.held or s.watched;

-- The largest working tables are dropped after use, because the next steps need the memory.
drop table reading;
