-- A row is a step of time and the means of what one job's devices did in it, weighted by how long each was sampled;
-- NULL without a reading. Without a job, what the given devices did whoever held them. held_us is how long the devices were held in the step, covered_us how long sampled.
with span as (
    select s.device_id, s.start_us, s.end_us
    from run r
    join segment s on s.run_id = r.run_id and s.cluster = r.cluster
    left join run_team t on t.run_id = r.run_id and t.cluster = r.cluster
    where r.cluster = $cluster and (r.job_id = $job_id or ($job_id is null and list_contains($device_ids, s.device_id)))
        and s.start_us < $end_us and s.end_us > $start_us
        and ($device_ids::bigint[] is null or list_contains($device_ids, s.device_id))
        and ($teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__')))
),
-- A device that several pods of one job share is one device.
device_span as (
    select distinct device_id, start_us, end_us from span
),
step as (
    select unnest(range($start_us, $end_us, $step_us)) as at_us
),
held as (
    select
        p.at_us,
        sum(greatest(least(s.end_us, p.at_us + $step_us) - greatest(s.start_us, p.at_us), 0)) as held_us,
        count(distinct s.device_id) as devices
    from step p
    join device_span s on s.start_us < p.at_us + $step_us and s.end_us > p.at_us
    group by p.at_us
),
read as (
    select
        $start_us + (w.start_us - $start_us) // $step_us * $step_us as at_us,
        -- PCIe readings on a slice's row are those of the whole GPU.
        w.* replace (case when d.gi < 0 then w.pcie_bytes_per_s end as pcie_bytes_per_s)
    from device_window w
    join device d on d.device_id = w.device_id and d.cluster = w.cluster
    join device_span s on s.device_id = w.device_id and s.start_us = w.segment_start_us
    where w.cluster = $cluster
        and w.hour_us >= $start_us // 3600000000 * 3600000000 and w.hour_us < $end_us
        and w.start_us >= $start_us and w.start_us < $end_us
),
mean as (
    select
        at_us,
        sum(covered_us) as covered_us,
        sum(gr_engine_ratio * covered_us) / sum(covered_us) filter (where gr_engine_ratio is not null) as gr_engine_ratio,
        sum(sm_active_ratio * covered_us) / sum(covered_us) filter (where sm_active_ratio is not null) as sm_active_ratio,
        sum(sm_occupancy_ratio * covered_us) / sum(covered_us) filter (where sm_occupancy_ratio is not null)
            as sm_occupancy_ratio,
        sum(tensor_active_ratio * covered_us) / sum(covered_us) filter (where tensor_active_ratio is not null)
            as tensor_active_ratio,
        sum(dram_active_ratio * covered_us) / sum(covered_us) filter (where dram_active_ratio is not null)
            as dram_active_ratio,
        sum(fp_active_ratio * covered_us) / sum(covered_us) filter (where fp_active_ratio is not null) as fp_active_ratio,
        sum(gpu_util_ratio * covered_us) / sum(covered_us) filter (where gpu_util_ratio is not null) as gpu_util_ratio,
        sum(fb_used_bytes::double * covered_us) / sum(covered_us) filter (where fb_used_bytes is not null) as fb_used_bytes,
        sum(power_watts * covered_us) / sum(covered_us) filter (where power_watts is not null) as power_watts,
        sum(link_ratio * covered_us) / sum(covered_us) filter (where link_ratio is not null) as link_ratio,
        sum(pcie_bytes_per_s * covered_us) / sum(covered_us) filter (where pcie_bytes_per_s is not null)
            as pcie_bytes_per_s,
        sum(sm_clock_mhz * covered_us) / sum(covered_us) filter (where sm_clock_mhz is not null) as sm_clock_mhz,
        sum(gpu_temp_celsius * covered_us) / sum(covered_us) filter (where gpu_temp_celsius is not null) as gpu_temp_celsius
    from read
    group by at_us
)
select
    p.at_us,
    h.devices,
    h.held_us::bigint as held_us,
    m.* exclude (at_us) replace (m.covered_us::bigint as covered_us)
from step p
left join held h using (at_us)
left join mean m using (at_us)
order by p.at_us;
