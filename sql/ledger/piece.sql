-- A row of pace is a device and an hour: how far apart its samples are, and its idle power.
create or replace temp table pace as
with hourly as (
    select
        device_id,
        hour_us,
        quantile_disc(spacing_us, [0.5, 0.75]) as spread,
        -- Two scrapers with a small offset make every other spacing short; then the long one counts.
        case when spread[2] > 8 * spread[1] then spread[2] else spread[1] end as interval_us,
        count(spacing_us) as spacings,
        quantile_disc(power_watts, 0.05) filter (
            where coalesce(gr_engine_ratio, gpu_util_ratio) < 0.02
        ) as quiet_watts
    from reading
    group by all
)
select
    own.device_id,
    own.hour_us,
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
left join hourly after on after.device_id = own.device_id and after.hour_us = own.hour_us + 3600000000;

-- A row of owned_span is the part of an elementary span of a device that lies in one hour: held or not, and by a run
-- that holds several devices in that hour or not.
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
)
select
    h.device_id,
    h.start_us as span_us,
    greatest(h.start_us, h.hour * 3600000000) as start_us,
    least(h.end_us, (h.hour + 1) * 3600000000) as end_us,
    bool_or(h.run_id is not null) as held,
    coalesce(max(r.devices), 0) >= 2 as gang
from hourly h
left join run_hour r on r.run_id = h.run_id and r.hour = h.hour
where h.device_id in (select device_id from reading_device)
group by h.device_id, h.start_us, h.end_us, h.hour;

-- A row of piece is the part of a sample's interval that lies in one held span, with what the device did in it.
-- The interval of a sample reaches back to the sample before it, at most twice the usual spacing; the first and the
-- last sample of a device reach half a spacing outward. Most ten minutes of a device lie in one span: an interval
-- within them finds its span by equality, and the others are cut at the edges.
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
        gang
    from owned_span
),
timed as (
    select
        r.*,
        r.observed_us - case
            when r.spacing_us is not null then least(r.spacing_us, 2 * p.interval_us)
            when d.first_us = r.observed_us then p.interval_us // 2
            else 2 * p.interval_us
        end as from_us,
        r.observed_us + case when d.last_us = r.observed_us then p.interval_us // 2 else 0 end as to_us,
        t.slice,
        -- NULL if the links were not read or the model's speed is unknown (least() would return 1).
        case
            when not t.slice and r.nvlink_bytes_per_s / t.link_bytes_per_s > 1 then 1
            when not t.slice then r.nvlink_bytes_per_s / t.link_bytes_per_s
        end as link_ratio,
        -- A GPU that was never idle in three hours is compared with the idle power of its model with a context.
        case
            when not t.slice
                then least(p.quiet_watts, coalesce(0.3 * t.tdp_watts, 150))
                    + greatest(25, 0.08 * coalesce(t.tdp_watts, 0))
        end as idle_watts_max
    from reading r
    join pace p using (device_id, hour_us)
    join device d using (device_id)
    join device_trait t using (device_id)
)
select
    a.device_id,
    w.span_us,
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
    and w.cell = a.from_us // 600000000
    and w.cell = (a.to_us - 1) // 600000000
where a.to_us > $piece_from_us and a.from_us < $piece_until_us and coalesce(w.held, true);

create or replace temp table cut_piece as
select
    p.* replace (
        s.span_us as span_us,
        s.gang as gang,
        greatest(p.from_us, s.start_us) as from_us,
        least(p.to_us, s.end_us) as to_us
    )
from piece p
join owned_span s
    on s.device_id = p.device_id and p.from_us < s.end_us and p.to_us > s.start_us
where p.span_us is null and s.held;

delete from piece where span_us is null;

insert into piece select * from cut_piece;

-- The largest working tables are dropped after use, because the next steps need the memory.
drop table reading;
