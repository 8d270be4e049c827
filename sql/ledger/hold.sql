-- Fills, in reading, the fields that a sparse device's exporter reads only every few scrapes.
-- A row of field_reading is one value of one field, with the span of time that it covers.
create or replace temp table field_reading as
with long as (
    unpivot (
        select
            device_id,
            observed_us,
            gr_engine_ratio,
            sm_active_ratio,
            sm_occupancy_ratio,
            tensor_active_ratio,
            dram_active_ratio,
            fp_active_ratio,
            gpu_util_ratio,
            fb_used_bytes::double as fb_used_bytes,
            power_watts,
            nvlink_bytes_per_s::double as nvlink_bytes_per_s,
            pcie_bytes_per_s::double as pcie_bytes_per_s
        from reading
        where device_id in (select device_id from sparse_device)
    )
    on columns (* exclude (device_id, observed_us))
    into name field value value
),
spaced as (
    select
        *,
        observed_us // 3600000000 * 3600000000 as hour_us,
        observed_us - lag(observed_us) over before as spacing_us,
        lead(observed_us) over before as next_us
    from long
    window before as (partition by device_id, field order by observed_us)
),
usual as (
    select device_id, field, hour_us, quantile_disc(spacing_us, 0.5) as interval_us, count(spacing_us) as spacings
    from spaced
    group by all
),
paced as (
    select
        s.*,
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
        ) as interval_us
    from spaced s
    join usual own using (device_id, field, hour_us)
    left join usual before
        on before.device_id = s.device_id and before.field = s.field and before.hour_us = s.hour_us - 3600000000
    left join usual after
        on after.device_id = s.device_id and after.field = s.field and after.hour_us = s.hour_us + 3600000000
)
select
    device_id,
    field,
    value,
    observed_us - least(coalesce(spacing_us, interval_us), 2 * interval_us) as from_us,
    -- The last value before a silence is held for one interval: the scrapes that miss the field still come.
    case
        when next_us is null or next_us - observed_us > 2 * interval_us then observed_us + interval_us
        else observed_us
    end as to_us
from paced;

create or replace temp table held as
with instant as (
    select device_id, observed_us
    from reading
    where device_id in (select device_id from sparse_device)
),
covered as (
    select i.device_id, i.observed_us, f.field, f.value
    from instant i
    join field_reading f
        on f.device_id = i.device_id and i.observed_us > f.from_us and i.observed_us <= f.to_us
)
select
    device_id,
    observed_us,
    max(value) filter (where field = 'gr_engine_ratio') as gr_engine_ratio,
    max(value) filter (where field = 'sm_active_ratio') as sm_active_ratio,
    max(value) filter (where field = 'sm_occupancy_ratio') as sm_occupancy_ratio,
    max(value) filter (where field = 'tensor_active_ratio') as tensor_active_ratio,
    max(value) filter (where field = 'dram_active_ratio') as dram_active_ratio,
    max(value) filter (where field = 'fp_active_ratio') as fp_active_ratio,
    max(value) filter (where field = 'gpu_util_ratio') as gpu_util_ratio,
    max(value) filter (where field = 'fb_used_bytes')::bigint as fb_used_bytes,
    max(value) filter (where field = 'power_watts') as power_watts,
    max(value) filter (where field = 'nvlink_bytes_per_s')::bigint as nvlink_bytes_per_s,
    max(value) filter (where field = 'pcie_bytes_per_s')::bigint as pcie_bytes_per_s
from covered
group by all;

create or replace temp table filled as
select
    r.device_id,
    r.observed_us,
    h.gr_engine_ratio,
    h.sm_active_ratio,
    h.sm_occupancy_ratio,
    h.tensor_active_ratio,
    h.dram_active_ratio,
    h.fp_active_ratio,
    h.gpu_util_ratio,
    h.fb_used_bytes,
    h.power_watts,
    h.nvlink_bytes_per_s,
    h.pcie_bytes_per_s,
    r.clocks_event_reasons,
    r.hour_us,
    r.spacing_us
from reading r
left join held h using (device_id, observed_us)
where r.device_id in (select device_id from sparse_device);

delete from reading where device_id in (select device_id from sparse_device);

insert into reading by name select * from filled;

drop table filled;

drop table held;

drop table field_reading;
