-- A row is a device of the largest set that some runs held at one time, in their newest start, and the first instant at
-- which they held all of it. Runs that overlap are one start; a run that begins as another ends is a new one.
with held as (
    select distinct a.run_id, s.device_id, s.start_us, s.end_us, s.share_num, s.share_den, s.estimated
    from asked_run a
    join segment s on s.run_id = a.run_id and s.cluster = a.cluster
),
lasted as (
    select run_id, min(start_us) as start_us, max(end_us) as end_us
    from held
    group by run_id
),
begun as (
    select
        *,
        start_us >= max(end_us) over (
            order by start_us, run_id rows between unbounded preceding and 1 preceding
        ) as begins
    from lasted
),
numbered as (
    select *, count(case when begins then 1 end) over (order by start_us, run_id) as start_number
    from begun
),
newest as (
    select * from numbered qualify start_number = max(start_number) over ()
),
mine as (
    select h.*
    from held h
    join newest n using (run_id)
),
-- A device that several runs share is one device.
span as (
    select distinct device_id, start_us, end_us from mine
),
edge as (
    select start_us as at_us, 1 as step from span
    union all
    select end_us, -1 from span
),
summed as (
    select at_us, sum(step) as step from edge group by at_us
),
level as (
    select at_us, sum(step) over (order by at_us) as devices from summed
),
fullest as (
    select at_us from level order by devices desc, at_us limit 1
)
select
    f.at_us,
    (select max(end_us) from newest) as until_us,
    min(n.start_us) over () as first_us,
    max(n.start_us) over () as last_us,
    d.device_id,
    m.run_id,
    d.gpu,
    d.gi,
    d.node,
    d.model,
    d.pool,
    m.share_num = m.share_den as whole,
    m.estimated
from fullest f
join mine m on m.start_us <= f.at_us and m.end_us > f.at_us
join newest n on n.run_id = m.run_id
join device d on d.device_id = m.device_id
order by d.gpu, d.gi
limit $limit;
