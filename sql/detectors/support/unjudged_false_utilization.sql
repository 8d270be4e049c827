-- A row is an hour that looked busy and could not be evaluated: a reading is missing, or no source names the device.
with lacking as (
    select
        h.run_id,
        w.device_id,
        w.hour_us,
        w.start_us,
        case
            when w.sm_active_ratio is null then 'SM_ACTIVE missing'
            when w.dram_active_ratio is null then 'DRAM_ACTIVE missing'
            else 'PIPE_TENSOR_ACTIVE missing'
        end as reason
    from device_window w
    join held h on h.device_id = w.device_id and h.start_us = w.segment_start_us
    where w.cluster = $cluster and w.hour_us >= $since_us and w.hour_us < $until_us
        and (w.gpu_util_ratio >= $busy_ratio_min or w.gr_engine_ratio >= $busy_ratio_min)
        and coalesce(w.sm_active_ratio < $sm_active_max, true)
        and (
            w.sm_active_ratio is null
            or w.dram_active_ratio is null
            or coalesce(w.tensor_active_ratio, w.fp_active_ratio) is null
        )
)
select run_id, device_id, min(start_us) as start_us, max(start_us) + 300000000 as end_us, reason
from lacking
group by run_id, device_id, hour_us, reason
having count(*) >= $windows_min
union all
select
    run_id,
    device_id,
    greatest(start_us, hour * 3600000000),
    least(end_us, hour * 3600000000 + 3600000000),
    'device not named by any source'
from (
    select
        *,
        unnest(range(greatest(start_us, $since_us) // 3600000000, (least(end_us, $until_us) + 3599999999) // 3600000000)) as hour
    from held
    where not sure and start_us < $until_us and end_us > $since_us
)
order by 3, 4;
