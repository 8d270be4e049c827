-- A row is an amount of GPU time that one limit would have returned from a job, at one price: units / den microseconds of a GPU.
-- devices: how often the job would have lost a device; wrong_devices: how often it used that device again.
with hit as (
    select
        scheduler,
        job_id,
        team,
        count(*) as devices,
        count(*) filter (where resumed) as wrong_devices,
        max(run_id) as last_run_id
    from replay_taken
    where limit_us = $limit_us
    group by all
)
select
    h.scheduler,
    h.job_id,
    h.team,
    h.devices,
    h.wrong_devices,
    r.name,
    r.user_name,
    b.usd_per_gpu_hour,
    b.den,
    b.units::varchar as units
from hit h
join run r on r.run_id = h.last_run_id
join replay_priced b
    on b.limit_us = $limit_us and b.scheduler is not distinct from h.scheduler and b.job_id is not distinct from h.job_id
    and b.team = h.team
order by all;
