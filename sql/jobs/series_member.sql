-- A row is a device of a finding and a step of time: the mean of one column of what the device did, weighted by how long it was
-- sampled. The other devices of the finding's job are there too; is_subject marks those that the finding is about.
with span as (
    select distinct s.device_id, s.start_us
    from run r
    join segment s on s.run_id = r.run_id and s.cluster = r.cluster
    left join run_team t on t.run_id = r.run_id and t.cluster = r.cluster
    where r.cluster = $cluster
        and (r.job_id = $job_id or ($job_id is null and list_contains($device_ids, s.device_id)))
        and s.start_us < $end_us and s.end_us > $start_us
        and ($teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__')))
),
member as (
    select device_id, list_contains($device_ids, device_id) as is_subject
    from span
    group by device_id
    order by is_subject desc, device_id
    limit $members_max
),
reading as (
    select
        w.device_id,
        $start_us + (w.start_us - $start_us) // $step_us * $step_us as at_us,
        w.covered_us,
        case $column
            when 'gr_engine_ratio' then w.gr_engine_ratio
            when 'sm_active_ratio' then w.sm_active_ratio
            when 'tensor_active_ratio' then w.tensor_active_ratio
            when 'dram_active_ratio' then w.dram_active_ratio
            when 'link_ratio' then w.link_ratio
            when 'sm_clock_mhz' then w.sm_clock_mhz
        end as value
    from device_window w
    join span s on s.device_id = w.device_id and s.start_us = w.segment_start_us
    where w.cluster = $cluster
        and w.hour_us >= $start_us // 3600000000 * 3600000000 and w.hour_us < $end_us
        and w.start_us >= $start_us and w.start_us < $end_us
)
select
    m.device_id,
    m.is_subject,
    case when d.gi >= 0 then d.gpu || '/GI-' || d.gi else d.gpu end as device,
    d.node,
    r.at_us,
    sum(r.value * r.covered_us) / sum(r.covered_us) filter (where r.value is not null) as value
from member m
join device d on d.device_id = m.device_id and d.cluster = $cluster
left join reading r on r.device_id = m.device_id
group by all
order by m.is_subject desc, device, r.at_us;
