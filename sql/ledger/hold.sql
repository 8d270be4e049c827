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

-- A row of field_pace is a device, an hour and the usual spacing of each of its fields.
create or replace temp table field_pace as
with hourly as (
    select
        device_id,
        hour_us,
        quantile_disc(gr_us - gr_before_us, [0.5, 0.75]) as gr_spread,
        case when gr_spread[2] > 8 * gr_spread[1] then gr_spread[2] else gr_spread[1] end as gr_interval_us,
        count(gr_us - gr_before_us) as gr_spacings,
        quantile_disc(sm_us - sm_before_us, [0.5, 0.75]) as sm_spread,
        case when sm_spread[2] > 8 * sm_spread[1] then sm_spread[2] else sm_spread[1] end as sm_interval_us,
        count(sm_us - sm_before_us) as sm_spacings,
        quantile_disc(tensor_us - tensor_before_us, [0.5, 0.75]) as tensor_spread,
        case when tensor_spread[2] > 8 * tensor_spread[1] then tensor_spread[2] else tensor_spread[1] end as tensor_interval_us,
        count(tensor_us - tensor_before_us) as tensor_spacings,
        quantile_disc(dram_us - dram_before_us, [0.5, 0.75]) as dram_spread,
        case when dram_spread[2] > 8 * dram_spread[1] then dram_spread[2] else dram_spread[1] end as dram_interval_us,
        count(dram_us - dram_before_us) as dram_spacings,
        quantile_disc(fp_us - fp_before_us, [0.5, 0.75]) as fp_spread,
        case when fp_spread[2] > 8 * fp_spread[1] then fp_spread[2] else fp_spread[1] end as fp_interval_us,
        count(fp_us - fp_before_us) as fp_spacings,
        quantile_disc(util_us - util_before_us, [0.5, 0.75]) as util_spread,
        case when util_spread[2] > 8 * util_spread[1] then util_spread[2] else util_spread[1] end as util_interval_us,
        count(util_us - util_before_us) as util_spacings,
        quantile_disc(power_us - power_before_us, [0.5, 0.75]) as power_spread,
        case when power_spread[2] > 8 * power_spread[1] then power_spread[2] else power_spread[1] end as power_interval_us,
        count(power_us - power_before_us) as power_spacings,
        quantile_disc(nvlink_us - nvlink_before_us, [0.5, 0.75]) as nvlink_spread,
        case when nvlink_spread[2] > 8 * nvlink_spread[1] then nvlink_spread[2] else nvlink_spread[1] end as nvlink_interval_us,
        count(nvlink_us - nvlink_before_us) as nvlink_spacings
    from around
    group by all
)
select
    own.device_id,
    own.hour_us,
    least(
        coalesce(
            case when own.gr_spacings >= 4 then own.gr_interval_us end,
            least(
                case when before.gr_spacings >= 4 then before.gr_interval_us end,
                case when after.gr_spacings >= 4 then after.gr_interval_us end
            ),
            $default_interval_us
        ),
        $interval_us_max
    ) as gr_interval_us,
    least(
        coalesce(
            case when own.sm_spacings >= 4 then own.sm_interval_us end,
            least(
                case when before.sm_spacings >= 4 then before.sm_interval_us end,
                case when after.sm_spacings >= 4 then after.sm_interval_us end
            ),
            $default_interval_us
        ),
        $interval_us_max
    ) as sm_interval_us,
    least(
        coalesce(
            case when own.tensor_spacings >= 4 then own.tensor_interval_us end,
            least(
                case when before.tensor_spacings >= 4 then before.tensor_interval_us end,
                case when after.tensor_spacings >= 4 then after.tensor_interval_us end
            ),
            $default_interval_us
        ),
        $interval_us_max
    ) as tensor_interval_us,
    least(
        coalesce(
            case when own.dram_spacings >= 4 then own.dram_interval_us end,
            least(
                case when before.dram_spacings >= 4 then before.dram_interval_us end,
                case when after.dram_spacings >= 4 then after.dram_interval_us end
            ),
            $default_interval_us
        ),
        $interval_us_max
    ) as dram_interval_us,
    least(
        coalesce(
            case when own.fp_spacings >= 4 then own.fp_interval_us end,
            least(
                case when before.fp_spacings >= 4 then before.fp_interval_us end,
                case when after.fp_spacings >= 4 then after.fp_interval_us end
            ),
            $default_interval_us
        ),
        $interval_us_max
    ) as fp_interval_us,
    least(
        coalesce(
            case when own.util_spacings >= 4 then own.util_interval_us end,
            least(
                case when before.util_spacings >= 4 then before.util_interval_us end,
                case when after.util_spacings >= 4 then after.util_interval_us end
            ),
            $default_interval_us
        ),
        $interval_us_max
    ) as util_interval_us,
    least(
        coalesce(
            case when own.power_spacings >= 4 then own.power_interval_us end,
            least(
                case when before.power_spacings >= 4 then before.power_interval_us end,
                case when after.power_spacings >= 4 then after.power_interval_us end
            ),
            $default_interval_us
        ),
        $interval_us_max
    ) as power_interval_us,
    least(
        coalesce(
            case when own.nvlink_spacings >= 4 then own.nvlink_interval_us end,
            least(
                case when before.nvlink_spacings >= 4 then before.nvlink_interval_us end,
                case when after.nvlink_spacings >= 4 then after.nvlink_interval_us end
            ),
            $default_interval_us
        ),
        $interval_us_max
    ) as nvlink_interval_us
from hourly own
left join hourly before on before.device_id = own.device_id and before.hour_us = own.hour_us - 3600000000
left join hourly after on after.device_id = own.device_id and after.hour_us = own.hour_us + 3600000000;

delete from reading where device_id in (select device_id from sparse_device);

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
    case
        when a.observed_us > a.gr_after_us - least(
            coalesce(a.gr_after_us - a.gr_before_us, p.gr_interval_us), 2 * p.gr_interval_us
        ) then a.gr_after
        when a.observed_us <= a.gr_before_us + p.gr_interval_us then a.gr_before
    end as gr_engine_ratio,
    case
        when a.observed_us > a.sm_after_us - least(
            coalesce(a.sm_after_us - a.sm_before_us, p.sm_interval_us), 2 * p.sm_interval_us
        ) then a.sm_after
        when a.observed_us <= a.sm_before_us + p.sm_interval_us then a.sm_before
    end as sm_active_ratio,
    case
        when a.observed_us > a.tensor_after_us - least(
            coalesce(a.tensor_after_us - a.tensor_before_us, p.tensor_interval_us), 2 * p.tensor_interval_us
        ) then a.tensor_after
        when a.observed_us <= a.tensor_before_us + p.tensor_interval_us then a.tensor_before
    end as tensor_active_ratio,
    case
        when a.observed_us > a.dram_after_us - least(
            coalesce(a.dram_after_us - a.dram_before_us, p.dram_interval_us), 2 * p.dram_interval_us
        ) then a.dram_after
        when a.observed_us <= a.dram_before_us + p.dram_interval_us then a.dram_before
    end as dram_active_ratio,
    case
        when a.observed_us > a.fp_after_us - least(
            coalesce(a.fp_after_us - a.fp_before_us, p.fp_interval_us), 2 * p.fp_interval_us
        ) then a.fp_after
        when a.observed_us <= a.fp_before_us + p.fp_interval_us then a.fp_before
    end as fp_active_ratio,
    case
        when a.observed_us > a.util_after_us - least(
            coalesce(a.util_after_us - a.util_before_us, p.util_interval_us), 2 * p.util_interval_us
        ) then a.util_after
        when a.observed_us <= a.util_before_us + p.util_interval_us then a.util_before
    end as gpu_util_ratio,
    case
        when a.observed_us > a.power_after_us - least(
            coalesce(a.power_after_us - a.power_before_us, p.power_interval_us), 2 * p.power_interval_us
        ) then a.power_after
        when a.observed_us <= a.power_before_us + p.power_interval_us then a.power_before
    end as power_watts,
    case
        when a.observed_us > a.nvlink_after_us - least(
            coalesce(a.nvlink_after_us - a.nvlink_before_us, p.nvlink_interval_us), 2 * p.nvlink_interval_us
        ) then a.nvlink_after
        when a.observed_us <= a.nvlink_before_us + p.nvlink_interval_us then a.nvlink_before
    end as nvlink_bytes_per_s
from around a
join field_pace p using (device_id, hour_us);
