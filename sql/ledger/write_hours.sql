-- Replaces every derived row of the slice's dirty hours of one cluster.
delete from device_minute where cluster = $cluster and hour_us in (select hour_us from slice_hour);

delete from device_window where cluster = $cluster and hour_us in (select hour_us from slice_hour);

delete from ledger_hour where cluster = $cluster and hour_us in (select hour_us from slice_hour);

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

insert into device_window
with slotted as (
    select *, (to_us - 1) // 300000000 as slot
    from piece
    union all
    select *, unnest(range(from_us // 300000000, (to_us - 1) // 300000000)) as slot
    from piece
    where from_us // 300000000 < (to_us - 1) // 300000000
)
select
    $cluster,
    slot * 300000000 // 3600000000 * 3600000000,
    device_id,
    span_us,
    slot * 300000000,
    count(*),
    sum((least(to_us, (slot + 1) * 300000000) - greatest(from_us, slot * 300000000))::double)::bigint,
    avg(g),
    avg(sm_active_ratio),
    avg(sm_occupancy_ratio),
    avg(tensor_active_ratio),
    avg(dram_active_ratio),
    avg(fp_active_ratio),
    avg(gpu_util_ratio),
    max(fb_used_bytes),
    avg(power_watts),
    avg(link_ratio),
    avg(pcie_bytes_per_s),
    bool_or(throttled)
from slotted
where slot * 300000000 // 3600000000 * 3600000000 in (select hour_us from slice_hour)
group by device_id, span_us, slot
order by device_id, slot;

-- What a segment's hour holds beyond its observed minutes was not observed.
insert into ledger_hour
with segment_hour as (
    select
        s.*,
        h.hour_us,
        least(s.end_us, h.hour_us + 3600000000) - greatest(s.start_us, h.hour_us) as length_us
    from segment s
    join slice_hour h on s.start_us < h.hour_us + 3600000000 and s.end_us > h.hour_us
    where s.cluster = $cluster
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

delete from dirty_hour where cluster = $cluster and hour_us in (select hour_us from slice_hour);

drop table minute;

drop table idle_piece;

drop table piece;

drop table owned_span;

drop table other_source;

drop table repeated_day;

drop table sparse_device;

drop table reading_device;
