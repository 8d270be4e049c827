-- Fills, in reading, the fields that a sparse device's exporter reads only every few scrapes.
-- A value covers the time since the value before it, at most twice the field's usual spacing; the last value before a
-- silence is held for one spacing, because the scrapes that miss the field still come.
create or replace temp table sparse_reading as
select
    *,
    case when gr_engine_ratio is not null then observed_us end as gr_us,
    case when sm_active_ratio is not null then observed_us end as sm_us,
    case when tensor_active_ratio is not null then observed_us end as tensor_us,
    case when dram_active_ratio is not null then observed_us end as dram_us,
    case when fp_active_ratio is not null then observed_us end as fp_us,
    case when gpu_util_ratio is not null then observed_us end as util_us,
    case when power_watts is not null then observed_us end as power_us,
    case when nvlink_bytes_per_s is not null then observed_us end as nvlink_us
from reading
where device_id in (select device_id from sparse_device);

-- A row of around is a reading with, for each field, when it was last read before, when next (this one included), and
-- both values.
create or replace temp table around as
select
    *,
    max(gr_us) over before as gr_before_us,
    min(gr_us) over after as gr_after_us,
    last_value(gr_engine_ratio ignore nulls) over before as gr_before,
    first_value(gr_engine_ratio ignore nulls) over after as gr_after,
    max(sm_us) over before as sm_before_us,
    min(sm_us) over after as sm_after_us,
    last_value(sm_active_ratio ignore nulls) over before as sm_before,
    first_value(sm_active_ratio ignore nulls) over after as sm_after,
    max(tensor_us) over before as tensor_before_us,
    min(tensor_us) over after as tensor_after_us,
    last_value(tensor_active_ratio ignore nulls) over before as tensor_before,
    first_value(tensor_active_ratio ignore nulls) over after as tensor_after,
    max(dram_us) over before as dram_before_us,
    min(dram_us) over after as dram_after_us,
    last_value(dram_active_ratio ignore nulls) over before as dram_before,
    first_value(dram_active_ratio ignore nulls) over after as dram_after,
    max(fp_us) over before as fp_before_us,
    min(fp_us) over after as fp_after_us,
    last_value(fp_active_ratio ignore nulls) over before as fp_before,
    first_value(fp_active_ratio ignore nulls) over after as fp_after,
    max(util_us) over before as util_before_us,
    min(util_us) over after as util_after_us,
    last_value(gpu_util_ratio ignore nulls) over before as util_before,
    first_value(gpu_util_ratio ignore nulls) over after as util_after,
    max(power_us) over before as power_before_us,
    min(power_us) over after as power_after_us,
    last_value(power_watts ignore nulls) over before as power_before,
    first_value(power_watts ignore nulls) over after as power_after,
    max(nvlink_us) over before as nvlink_before_us,
    min(nvlink_us) over after as nvlink_after_us,
    last_value(nvlink_bytes_per_s ignore nulls) over before as nvlink_before,
    first_value(nvlink_bytes_per_s ignore nulls) over after as nvlink_after
from sparse_reading
window
    before as (partition by device_id order by observed_us rows between unbounded preceding and 1 preceding),
    after as (partition by device_id order by observed_us rows between current row and unbounded following);

-- The usual spacing of a field in an hour, NULL where it was read too seldom to have one. Two scrapers with a small
-- offset make every other spacing short; then the long one counts.
create or replace temp macro spacing_of(spacing) as
case
    when count(spacing) < 4 then null
    when quantile_disc(spacing, 0.75) > 8 * quantile_disc(spacing, 0.5) then quantile_disc(spacing, 0.75)
    else quantile_disc(spacing, 0.5)
end;

-- A row of field_pace is a device, an hour and the usual spacing of each of its fields.
create or replace temp table field_pace as
with hourly as (
    select
        device_id,
        hour_us,
        spacing_of(gr_us - gr_before_us) as gr,
        spacing_of(sm_us - sm_before_us) as sm,
        spacing_of(tensor_us - tensor_before_us) as tensor,
        spacing_of(dram_us - dram_before_us) as dram,
        spacing_of(fp_us - fp_before_us) as fp,
        spacing_of(util_us - util_before_us) as util,
        spacing_of(power_us - power_before_us) as power,
        spacing_of(nvlink_us - nvlink_before_us) as nvlink
    from around
    group by all
)
select
    own.device_id,
    own.hour_us,
    least(coalesce(own.gr, least(before.gr, after.gr), $default_interval_us), $interval_us_max) as gr_interval_us,
    least(coalesce(own.sm, least(before.sm, after.sm), $default_interval_us), $interval_us_max) as sm_interval_us,
    least(coalesce(own.tensor, least(before.tensor, after.tensor), $default_interval_us), $interval_us_max) as tensor_interval_us,
    least(coalesce(own.dram, least(before.dram, after.dram), $default_interval_us), $interval_us_max) as dram_interval_us,
    least(coalesce(own.fp, least(before.fp, after.fp), $default_interval_us), $interval_us_max) as fp_interval_us,
    least(coalesce(own.util, least(before.util, after.util), $default_interval_us), $interval_us_max) as util_interval_us,
    least(coalesce(own.power, least(before.power, after.power), $default_interval_us), $interval_us_max) as power_interval_us,
    least(coalesce(own.nvlink, least(before.nvlink, after.nvlink), $default_interval_us), $interval_us_max) as nvlink_interval_us
from hourly own
left join hourly before on before.device_id = own.device_id and before.hour_us = own.hour_us - 3600000000
left join hourly after on after.device_id = own.device_id and after.hour_us = own.hour_us + 3600000000;

delete from reading where device_id in (select device_id from sparse_device);

-- A value covers the time since the value before it, at most two intervals; the last one is held for one interval.
create or replace temp macro value_at(at_us, before_us, before_value, after_us, after_value, interval_us) as
case
    when at_us > after_us - least(coalesce(after_us - before_us, interval_us), 2 * interval_us) then after_value
    when at_us <= before_us + interval_us then before_value
end;

insert into reading by name
select
    a.device_id,
    a.observed_us,
    a.hour_us,
    a.spacing_us,
    a.sm_occupancy_ratio,
    a.fb_used_bytes,
    a.pcie_bytes_per_s,
    a.clocks_event_reasons,
    a.xid_code,
    a.sm_clock_mhz,
    a.gpu_temp_celsius,
    value_at(a.observed_us, a.gr_before_us, a.gr_before, a.gr_after_us, a.gr_after, p.gr_interval_us) as gr_engine_ratio,
    value_at(a.observed_us, a.sm_before_us, a.sm_before, a.sm_after_us, a.sm_after, p.sm_interval_us) as sm_active_ratio,
    value_at(a.observed_us, a.tensor_before_us, a.tensor_before, a.tensor_after_us, a.tensor_after, p.tensor_interval_us) as tensor_active_ratio,
    value_at(a.observed_us, a.dram_before_us, a.dram_before, a.dram_after_us, a.dram_after, p.dram_interval_us) as dram_active_ratio,
    value_at(a.observed_us, a.fp_before_us, a.fp_before, a.fp_after_us, a.fp_after, p.fp_interval_us) as fp_active_ratio,
    value_at(a.observed_us, a.util_before_us, a.util_before, a.util_after_us, a.util_after, p.util_interval_us) as gpu_util_ratio,
    value_at(a.observed_us, a.power_before_us, a.power_before, a.power_after_us, a.power_after, p.power_interval_us) as power_watts,
    value_at(a.observed_us, a.nvlink_before_us, a.nvlink_before, a.nvlink_after_us, a.nvlink_after, p.nvlink_interval_us) as nvlink_bytes_per_s
from around a
join field_pace p using (device_id, hour_us);
