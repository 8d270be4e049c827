-- A row is a job and the most devices it held at one time in the window. Call after jobs/run.sql, with its window.
with held as (
    select a.cluster, a.job_id, s.device_id, greatest(s.start_us, $start_us) as start_us, least(s.end_us, $end_us) as end_us
    from asked_run a
    join shown_segment s on s.run_id = a.run_id
),
-- A device that several pods of one job share is one device.
edge as (
    select cluster, job_id, start_us as at_us, 1 as step from (select distinct * from held)
    union all
    select cluster, job_id, end_us, -1 from (select distinct * from held)
),
summed as (
    select cluster, job_id, at_us, sum(step) as step
    from edge
    group by cluster, job_id, at_us
),
level as (
    select cluster, job_id, sum(step) over (partition by cluster, job_id order by at_us) as devices
    from summed
)
select cluster, job_id, max(devices)::bigint as devices
from level
group by cluster, job_id
order by cluster, job_id;
