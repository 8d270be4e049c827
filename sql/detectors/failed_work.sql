-- A row is a job whose attempts failed, with the device time whose work is lost. failed_span has its spans and failed_cost its
-- cost (both made before). It claims no time of a bucket: the ledger counts what those GPUs did, whatever became of it.
with reason_sum as (
    select
        chain,
        reason,
        count(distinct (run_id, failed_us)) as failures,
        exact_sum(greatest(end_us - lost_from_us, 0)::double * share_num / share_den) / 3600e6 as lost_gpu_hours
    from failed_span
    group by chain, reason
),
reasons as (
    select
        chain,
        arg_max(reason, (lost_gpu_hours, reason)) as reason,
        string_agg(
            reason || ' ' || printf('%.1f', lost_gpu_hours) || ' GPU-hours', ', ' order by lost_gpu_hours desc, reason
        ) as by_reason,
        sum(failures) as failures,
        exact_sum(lost_gpu_hours) as lost_gpu_hours
    from reason_sum
    group by chain
),
attempt as (
    select chain, run_id, failed_us, count(distinct device_id) as gpus
    from failed_span
    group by chain, run_id, failed_us
),
-- Jobs whose SM_ACTIVE was read: only then would the pauses of checkpoints have been seen.
seen as (
    select distinct f.chain
    from (select distinct chain, run_id, device_id from failed_span) f
    join workload_hour w on w.cluster = $cluster and w.run_id = f.run_id and w.device_id = f.device_id
    where w.sm_active_ratio is not null
),
total as (
    select
        chain,
        min(start_us) as start_us,
        max(end_us) as end_us,
        arg_min(run_id, (start_us, run_id)) as run_id,
        list_sort(list(distinct device_id)) as device_ids,
        exact_sum((end_us - start_us)::double * share_num / share_den) / 3600e6 as held_gpu_hours,
        max(checkpoint_minutes) as checkpoint_minutes,
        bool_or(has_successor and checkpoint_minutes is null) as has_successor
    from failed_span
    group by chain
)
select
    t.chain,
    t.run_id,
    t.start_us,
    t.end_us,
    t.end_us >= $known_until_us - $recent_us as still,
    case
        when r.reason in ('image not pulled', 'container not created', 'crash loop') then 0.9
        when t.has_successor then 0.4
        when t.checkpoint_minutes is null and t.chain not in (select chain from seen) then 0.6
        when r.reason = 'time limit' then 0.7
        else 0.9
    end as confidence,
    t.device_ids,
    map {
        'lost_gpu_hours': r.lost_gpu_hours,
        'held_gpu_hours': t.held_gpu_hours,
        'failures': r.failures::double,
        'gpus': a.gpus::double,
        'checkpoint_minutes': t.checkpoint_minutes
    } as numbers,
    map {
        'reason': r.reason,
        'by_reason': r.by_reason,
        'lost_cost': c.cost,
        'currency': c.currency,
        'continued': case when t.has_successor then 'possibly' end
    } as words
from total t
join reasons r using (chain)
join (select chain, max(gpus) as gpus from attempt group by chain) a using (chain)
left join failed_cost c using (chain)
where r.lost_gpu_hours >= $lost_gpu_hours_min
order by t.start_us, t.chain;
