-- When each device was read, and the readings of those devices whose samples have to be merged or filled first.
-- A field that the exporter reads only every few scrapes is held: a value covers the time since the value before it,
-- for at most twice the field's usual spacing, and nothing beyond (domain: what interval does a value cover).
create or replace temp table reading_device as
select device_id, gi >= 0 as slice
from device
where cluster = $cluster and measured and device_id between $first_device and $last_device;

-- A row of sparse_device is a device whose activity fields are not all present in the same samples.
create or replace temp table sparse_device as
select device_id
from sample
where observed_us >= $read_from_us and observed_us < $read_until_us
    and device_id in (select device_id from reading_device)
group by device_id
having count(gr_engine_ratio) not in (0, count(*))
    or count(sm_active_ratio) not in (0, count(*))
    or count(tensor_active_ratio) not in (0, count(*))
    or count(dram_active_ratio) not in (0, count(*))
    or count(gpu_util_ratio) not in (0, count(*))
    or count(power_watts) not in (0, count(*))
    or count(nvlink_tx_bytes_per_s) not in (0, count(*))
    or count(nvlink_rx_bytes_per_s) not in (0, count(*))
    or count(fp64_active_ratio) not in (0, count(*))
    or count(fp32_active_ratio) not in (0, count(*))
    or count(fp16_active_ratio) not in (0, count(*));

-- A row of other_source is a context whose samples are left out, because another source reads the same device at other
-- instants: one that names an owner counts before one that does not, then the one with more samples.
create or replace temp table other_source as
select s.device_id, s.context_id, s.hour_us
from context_span s
join context c using (context_id)
where s.parallel and s.hour_us >= $read_from_us - 3600000000 and s.hour_us < $read_until_us and c.cluster = $cluster
qualify row_number() over (
    partition by s.device_id, s.hour_us
    order by coalesce(c.pod, c.job) is null, s.samples desc, s.context_id
) > 1;

-- A row of merged_device is a device whose samples are merged by instant or not all count: a sparse one, one with other sources,
-- or any where a day has several samples of some device at one instant (one a pod, or one an exporter).
create or replace temp table merged_device as
select device_id from sparse_device
union
select device_id from other_source
union
select device_id
from reading_device
where exists (
    select 1
    from sealed_day
    where repeated and day_us < $read_until_us and day_us + 86400000000 > $read_from_us
);

-- A row of plain_device is one of the others, most often all: each of its samples is a reading, read where it is stored.
create or replace temp table plain_device as
select device_id
from reading_device
where device_id not in (select device_id from merged_device);

-- A row of reading is a merged device at one instant, with the time since the instant before.
create or replace temp table reading as
with one as (
    select
        device_id,
        observed_us,
        max(gr_engine_ratio) as gr_engine_ratio,
        max(sm_active_ratio) as sm_active_ratio,
        max(sm_occupancy_ratio) as sm_occupancy_ratio,
        max(tensor_active_ratio) as tensor_active_ratio,
        max(dram_active_ratio) as dram_active_ratio,
        greatest(max(fp64_active_ratio), max(fp32_active_ratio), max(fp16_active_ratio)) as fp_active_ratio,
        max(gpu_util_ratio) as gpu_util_ratio,
        max(fb_used_bytes) as fb_used_bytes,
        max(power_watts) as power_watts,
        max(nvlink_tx_bytes_per_s) + max(nvlink_rx_bytes_per_s) as nvlink_bytes_per_s,
        max(pcie_tx_bytes_per_s) + max(pcie_rx_bytes_per_s) as pcie_bytes_per_s,
        bit_or(clocks_event_reasons) as clocks_event_reasons,
        max(xid_code) as xid_code,
        max(sm_clock_mhz) as sm_clock_mhz,
        max(gpu_temp_celsius) as gpu_temp_celsius
    from sample
    where observed_us >= $read_from_us and observed_us < $read_until_us
        and device_id in (select device_id from merged_device)
        and (device_id, context_id, observed_us // 3600000000 * 3600000000) not in (
            select (device_id, context_id, hour_us) from other_source
        )
    group by device_id, observed_us
)
select
    *,
    observed_us // 3600000000 * 3600000000 as hour_us,
    observed_us - lag(observed_us) over (partition by device_id order by observed_us) as spacing_us
from one;

-- A row of beat is the instant of a reading of any device, with the time since the one before. Whole samples are several times as
-- wide, and sorting them by time costs as much more.
create or replace temp table beat as
select
    device_id,
    observed_us,
    observed_us - lag(observed_us) over (partition by device_id order by observed_us) as spacing_us
from sample
where observed_us >= $read_from_us and observed_us < $read_until_us
    and device_id in (select device_id from plain_device)
union all
select device_id, observed_us, spacing_us from reading;
