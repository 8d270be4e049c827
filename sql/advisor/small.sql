-- A row is a job that held one device at a time in the window, whole and alone, and the most it used of it.
-- covered_us: time of it that was measured. memory_bytes and sm_ratio are the most of five minutes, NULL where unknown.
with held as (
    select s.cluster, s.device_id, s.start_us, s.end_us, s.run_id, r.job_id, coalesce(t.team, '__unallocated__') as team
    from segment s
    join run r on r.run_id = s.run_id and r.cluster = s.cluster
    left join run_team t on t.run_id = s.run_id and t.cluster = s.cluster
    where s.start_us < $end_us and s.end_us > $start_us and ($cluster is null or s.cluster = $cluster)
        and ($teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__')))
),
one as (
    select
        s.cluster,
        s.job_id,
        s.team,
        s.run_id,
        count(distinct s.device_id) = 1
        and bool_and(s.share_num = s.share_den and s.profile is null and not coalesce(s.estimated, false)) as alone
    from (
        select h.*, s.share_num, s.share_den, s.profile, s.estimated
        from held h
        join segment s using (cluster, device_id, start_us, run_id)
    ) s
    group by all
),
-- A job with a run that held several devices, or a part of one, is left out whole: its need is that of all its runs.
single as (
    select cluster, job_id, team
    from one
    group by all
    having bool_and(alone)
),
used as (
    select
        h.cluster,
        h.job_id,
        h.team,
        h.device_id,
        sum(w.covered_us)::bigint as covered_us,
        max(w.fb_used_bytes)::bigint as memory_bytes,
        -- The last five minutes share a reading with the next holder.
        max(w.sm_active_ratio) filter (where w.start_us + 300000000 < h.end_us) as sm_ratio,
        bool_or(w.fb_used_bytes is null or w.sm_active_ratio is null) as partly
    from held h
    join single using (cluster, job_id, team)
    join device_window w
        on w.cluster = h.cluster and w.device_id = h.device_id and w.segment_start_us = h.start_us
        and w.start_us < $end_us and w.start_us + 300000000 > $start_us
    where w.covered_us > 0
    group by all
)
select
    u.cluster,
    u.job_id as job,
    u.team,
    d.model as gpu_model,
    sum(u.covered_us)::bigint as covered_us,
    case when not bool_or(u.partly) then max(u.memory_bytes) end as memory_bytes,
    case when not bool_or(u.partly) then max(u.sm_ratio) end as sm_ratio
from used u
join device d on d.device_id = u.device_id and d.cluster = u.cluster
group by u.cluster, u.job_id, u.team, d.model;
