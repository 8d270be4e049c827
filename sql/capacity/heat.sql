-- A row is a GPU and a step of whole hours: means while it was held, weighted by what was sampled, peaks whether held or not,
-- signs of faults, which part of the step it was held, and whether that it was this GPU of its node is estimated. Slices count
-- for their GPU. NULL without a reading.
with gpu as (
    select device_id, gpu, cluster
    from device
    where cluster = $cluster and gi < 0 and list_contains($gpus::varchar[], gpu)
),
part as (
    select d.device_id, d.gi, g.gpu
    from device d
    join gpu g on g.gpu = d.gpu and g.cluster = d.cluster
),
used as (
    select
        p.gpu,
        $start_us + (w.hour_us - $start_us) // $step_us * $step_us as at_us,
        -- Slices are parts of a GPU: the mean over them says how busy what was held was.
        sum(w.gr_engine_ratio * w.covered_us) / sum(w.covered_us) filter (where w.gr_engine_ratio is not null) as gr_engine_ratio,
        sum(w.sm_active_ratio * w.covered_us) / sum(w.covered_us) filter (where w.sm_active_ratio is not null) as sm_active_ratio,
        sum(w.power_watts * w.covered_us) / sum(w.covered_us) filter (where w.power_watts is not null) as power_watts
    from device_window w
    join part p on p.device_id = w.device_id
    where w.cluster = $cluster and w.hour_us >= $start_us and w.hour_us < $end_us
    group by all
),
state as (
    select
        p.gpu,
        $start_us + (h.hour_us - $start_us) // $step_us * $step_us as at_us,
        coalesce(
            max(h.fb_used_max_bytes) filter (where p.gi < 0), sum(h.fb_used_max_bytes) / count(distinct h.hour_us)
        ) / 1073741824 as fb_used_gib,
        max(h.gpu_temp_max_celsius) as gpu_temp_celsius,
        case
            when sum(h.samples) = 0 then null
            when max(h.row_remap_failed) > 0 or max(h.ecc_dbe_count) > 0 or max(h.memory_unrepairable) > 0 then 2
            when max(h.row_remap_pending) > 0 or count(*) filter (where len(h.xids) > 0) > 0 then 1
            else 0
        end as health
    from device_hour h
    join part p on p.device_id = h.device_id
    where h.cluster = $cluster and h.hour_us >= $start_us and h.hour_us < $end_us
    group by all
),
held as (
    select
        p.gpu,
        $start_us + (l.hour_us - $start_us) // $step_us * $step_us as at_us,
        sum(
            l.unobserved_us + l.hoarded_us + l.gap_us + l.communication_us + l.stalled_us + l.below_roof_us + l.memory_roof_us
                + l.compute_us
        )::double / $step_us as held_ratio,
        bool_or(l.estimated and l.run_id is not null) as estimated
    from ledger_hour l
    join part p on p.device_id = l.device_id
    where l.cluster = $cluster and l.hour_us >= $start_us and l.hour_us < $end_us
    group by all
)
select
    gpu,
    at_us,
    gr_engine_ratio,
    sm_active_ratio,
    power_watts,
    fb_used_gib,
    gpu_temp_celsius,
    health,
    least(held_ratio, 1.0) as held_ratio,
    coalesce(estimated, false) as estimated
from held
full join used using (gpu, at_us)
full join state using (gpu, at_us)
order by gpu, at_us;
