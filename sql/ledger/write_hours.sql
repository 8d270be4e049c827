-- Writes the derived rows of the slice's dirty hours for the devices of one part.
insert into device_minute
select
    $cluster,
    start_us // 3600000000 * 3600000000,
    device_id,
    start_us,
    end_us,
    unobserved_us,
    hoarded_us,
    gap_us,
    communication_us,
    stalled_us,
    below_roof_us,
    memory_roof_us,
    observed_us - unobserved_us - hoarded_us - gap_us - communication_us - stalled_us - below_roof_us - memory_roof_us
from minute
where start_us // 3600000000 * 3600000000 in (select hour_us from slice_hour)
order by device_id, start_us;

-- The same mean as exact_mean for values below 2^23, which have 64 bits in its units: ratios, clocks, temperatures and watts. Bytes a
-- second need its 128 bits, which take twice the time.
create or replace temp macro narrow_mean(x) as
    sum(try_cast(x * 1099511627776 as bigint))::double / count(x) / 1099511627776;

insert into device_window
with slotted as (
    select
        *,
        unnest(
            case
                when from_us // 300000000 >= (to_us - 1) // 300000000 then [(to_us - 1) // 300000000]
                else range(from_us // 300000000, (to_us - 1) // 300000000 + 1)
            end
        ) as slot
    from piece
    where span_us is not null and not watched
)
select
    $cluster,
    slot * 300000000 // 3600000000 * 3600000000,
    device_id,
    span_us,
    slot * 300000000,
    count(*),
    sum((least(to_us, (slot + 1) * 300000000) - greatest(from_us, slot * 300000000))::double)::bigint,
    narrow_mean(g),
    narrow_mean(sm_active_ratio),
    narrow_mean(sm_occupancy_ratio),
    narrow_mean(tensor_active_ratio),
    narrow_mean(dram_active_ratio),
    narrow_mean(fp_active_ratio),
    narrow_mean(gpu_util_ratio),
    max(fb_used_bytes),
    narrow_mean(power_watts),
    narrow_mean(link_ratio),
    exact_mean(pcie_bytes_per_s),
    bool_or(throttled),
    narrow_mean(sm_clock_mhz),
    narrow_mean(gpu_temp_celsius)
from slotted
where slot >= $slice_from_us // 300000000 and slot < $slice_until_us // 300000000
group by device_id, span_us, slot
having slot * 300000000 // 3600000000 * 3600000000 in (select hour_us from slice_hour)
order by device_id, slot;

insert into device_hour by name
with own as (
    select *, observed_us // 3600000000 * 3600000000 as hour_us
    from sample
    where observed_us >= $slice_from_us and observed_us < $slice_until_us
        and device_id in (select device_id from reading_device)
        and observed_us // 3600000000 * 3600000000 in (select hour_us from slice_hour)
),
xid as (
    select device_id, hour_us, list(xid_code order by xid_code) as codes, list(first_us order by xid_code) as firsts
    from (
        select device_id, hour_us, xid_code, min(observed_us) as first_us
        from own
        where xid_code <> 0
        group by device_id, hour_us, xid_code
    )
    group by device_id, hour_us
),
health as (
    select
        hour_us,
        device_id,
        count(*) as samples,
        min(fb_used_bytes) as fb_used_min_bytes,
        max(fb_used_bytes) as fb_used_max_bytes,
        arg_max(fb_used_bytes, observed_us) as fb_used_last_bytes,
        max(fb_total_bytes) as fb_total_bytes,
        max(gpu_temp_celsius) as gpu_temp_max_celsius,
        narrow_mean(sm_clock_mhz) as sm_clock_mhz,
        max(sm_clock_max_mhz) as sm_clock_max_mhz,
        max(power_limit_watts) as power_limit_watts,
        min(pcie_gen) as pcie_gen_min,
        max(pcie_gen) as pcie_gen_seen_max,
        max(pcie_gen_max) as pcie_gen_max,
        min(pcie_lanes) as pcie_lanes_min,
        max(pcie_lanes) as pcie_lanes_seen_max,
        max(pcie_lanes_max) as pcie_lanes_max,
        max(pcie_replay_count) - min(pcie_replay_count) as pcie_replays,
        case
            when count(coalesce(
                nvlink_crc_flit_error_count,
                nvlink_crc_data_error_count,
                nvlink_replay_error_count,
                nvlink_recovery_error_count
            )) > 0
                then coalesce(max(nvlink_crc_flit_error_count) - min(nvlink_crc_flit_error_count), 0)
                    + coalesce(max(nvlink_crc_data_error_count) - min(nvlink_crc_data_error_count), 0)
                    + coalesce(max(nvlink_replay_error_count) - min(nvlink_replay_error_count), 0)
                    + coalesce(max(nvlink_recovery_error_count) - min(nvlink_recovery_error_count), 0)
        end as nvlink_errors,
        count(xid_code) > 0 as xid_read,
        max(ecc_dbe_volatile_count) as ecc_dbe_count,
        max(row_remap_pending) as row_remap_pending,
        max(row_remap_failed) as row_remap_failed,
        max(remapped_uncorrectable_rows) as remapped_uncorrectable_rows,
        max(memory_unrepairable) as memory_unrepairable,
        bit_or(clocks_event_reasons) as clocks_event_reasons,
        max(fabric_health_summary) as fabric_health_summary,
        max(cuda_driver_version) as cuda_driver_version
    from own
    group by device_id, hour_us
)
select
    $cluster as cluster,
    h.* exclude (xid_read),
    coalesce(x.codes, case when h.xid_read then [] end) as xids,
    coalesce(x.firsts, case when h.xid_read then [] end) as xid_first_us
from health h
left join xid x using (device_id, hour_us)
order by device_id, hour_us;

-- The part of a segment's hour outside its observed minutes is unobserved.
insert into ledger_hour
with segment_hour as (
    select
        s.*,
        h.hour_us,
        least(s.end_us, h.hour_us + 3600000000) - greatest(s.start_us, h.hour_us) as length_us
    from segment s
    join slice_hour h on s.start_us < h.hour_us + 3600000000 and s.end_us > h.hour_us
    where s.cluster = $cluster and s.device_id between $first_device and $last_device
),
observed as (
    select
        device_id,
        span_us,
        start_us // 3600000000 * 3600000000 as hour_us,
        sum(observed_us::double)::bigint as observed_us,
        sum(unobserved_us::double)::bigint as unobserved_us,
        sum(hoarded_us::double)::bigint as hoarded_us,
        sum(gap_us::double)::bigint as gap_us,
        sum(communication_us::double)::bigint as communication_us,
        sum(stalled_us::double)::bigint as stalled_us,
        sum(below_roof_us::double)::bigint as below_roof_us,
        sum(memory_roof_us::double)::bigint as memory_roof_us
    from minute
    group by all
),
split as (
    select
        s.hour_us,
        s.device_id,
        s.run_id,
        s.share_num,
        s.share_den,
        s.profile,
        s.estimated,
        s.free_bucket,
        s.length_us,
        coalesce(o.observed_us, 0) as observed_us,
        coalesce(o.unobserved_us, 0) as unobserved_us,
        coalesce(o.hoarded_us, 0) as hoarded_us,
        coalesce(o.gap_us, 0) as gap_us,
        coalesce(o.communication_us, 0) as communication_us,
        coalesce(o.stalled_us, 0) as stalled_us,
        coalesce(o.below_roof_us, 0) as below_roof_us,
        coalesce(o.memory_roof_us, 0) as memory_roof_us
    from segment_hour s
    left join observed o
        on s.run_id is not null
        and o.device_id = s.device_id and o.span_us = s.start_us and o.hour_us = s.hour_us
)
select
    $cluster,
    hour_us,
    device_id,
    run_id,
    share_num,
    share_den,
    profile,
    bool_or(estimated),
    sum(case when free_bucket = 'schedulable' then length_us else 0 end)::bigint,
    sum(case when free_bucket = 'stranded' then length_us else 0 end)::bigint,
    sum(case when free_bucket = 'out_of_service' then length_us else 0 end)::bigint,
    sum(case when free_bucket = 'mig_remainder' then length_us else 0 end)::bigint,
    sum(case when run_id is null then 0 else length_us - observed_us + unobserved_us end)::bigint,
    sum(hoarded_us)::bigint,
    sum(gap_us)::bigint,
    sum(communication_us)::bigint,
    sum(stalled_us)::bigint,
    sum(below_roof_us)::bigint,
    sum(memory_roof_us)::bigint,
    sum(
        observed_us - unobserved_us - hoarded_us - gap_us - communication_us - stalled_us - below_roof_us
        - memory_roof_us
    )::bigint
from split
group by hour_us, device_id, run_id, share_num, share_den, profile
order by hour_us, device_id, run_id;

drop table minute;

drop table piece;
