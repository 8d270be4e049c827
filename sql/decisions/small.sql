-- A row is a job that held one device at a time in the window, whole and alone, and the most it used of it.
-- covered_us: time of it that was measured. memory_bytes and sm_ratio are the most of five minutes, NULL where unknown.
with held as (
    select s.cluster, s.device_id, s.start_us, s.end_us, s.run_id, s.profile
    from segment s
    where s.run_id is not null and s.start_us < $end_us and s.end_us > $start_us
        and s.share_num = s.share_den and s.profile is null and not coalesce(s.estimated, false)
        and ($cluster is null or s.cluster = $cluster)
),
-- Runs that hold several devices, or share one, are left out whole.
single as (
    select run_id
    from segment
    where run_id is not null and start_us < $end_us and end_us > $start_us
    group by run_id
    having count(distinct device_id) = 1 and bool_and(share_num = share_den and profile is null)
),
used as (
    select
        h.cluster,
        h.run_id,
        h.device_id,
        sum(w.covered_us)::bigint as covered_us,
        max(w.fb_used_bytes)::bigint as memory_bytes,
        -- The last five minutes share a reading with whoever came next.
        max(w.sm_active_ratio) filter (where w.start_us + 300000000 < h.end_us) as sm_ratio,
        bool_or(w.fb_used_bytes is null or w.sm_active_ratio is null) as partly
    from held h
    join single using (run_id)
    join device_window w
        on w.cluster = h.cluster and w.device_id = h.device_id and w.segment_start_us = h.start_us
        and w.start_us < $end_us and w.start_us + 300000000 > $start_us
    where w.covered_us > 0
    group by h.cluster, h.run_id, h.device_id
)
select
    u.cluster,
    r.job_id as job,
    coalesce(t.team, '__unallocated__') as team,
    d.model as gpu_model,
    sum(u.covered_us)::bigint as covered_us,
    case when not bool_or(u.partly) then max(u.memory_bytes) end as memory_bytes,
    case when not bool_or(u.partly) then max(u.sm_ratio) end as sm_ratio
from used u
join run r on r.run_id = u.run_id and r.cluster = u.cluster
join device d on d.device_id = u.device_id and d.cluster = u.cluster
left join run_team t on t.run_id = u.run_id and t.cluster = u.cluster
where $teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__'))
group by u.cluster, r.job_id, coalesce(t.team, '__unallocated__'), d.model;
