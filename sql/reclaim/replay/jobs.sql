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
),
returned as (
    select
        t.scheduler,
        t.job_id,
        t.team,
        p.usd_per_gpu_hour,
        s.share_den as den,
        sum(
            (least(t.end_us, s.end_us, p.end_us) - greatest(t.start_us, s.start_us, p.start_us))::hugeint * s.share_num
        )::varchar as units
    from replay_taken t
    join segment s
        on s.cluster = $cluster and s.device_id = t.device_id and s.run_id = t.run_id
        and s.start_us < t.end_us and s.end_us > t.start_us
    join device_price p
        on p.cluster = $cluster and p.device_id = t.device_id and p.profile is not distinct from s.profile
        and p.start_us < least(t.end_us, s.end_us) and p.end_us > greatest(t.start_us, s.start_us)
    where t.limit_us = $limit_us
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
    b.units
from hit h
join run r on r.run_id = h.last_run_id
join returned b
    on b.scheduler is not distinct from h.scheduler and b.job_id is not distinct from h.job_id and b.team = h.team
order by all;
