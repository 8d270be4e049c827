-- A row of replay_priced is a job and a limit, and the GPU time that the limit would have returned of it at one price: units / den
-- microseconds of a GPU.
create or replace temp table replay_priced as
select
    t.limit_us,
    t.scheduler,
    t.job_id,
    t.team,
    p.usd_per_gpu_hour,
    p.currency,
    s.share_den as den,
    sum(
        (least(t.end_us, s.end_us, p.end_us) - greatest(t.start_us, s.start_us, p.start_us))::hugeint * s.share_num
    ) as units
from replay_taken t
join segment s
    on s.cluster = $cluster and s.device_id = t.device_id and s.run_id = t.run_id
    and s.start_us < t.end_us and s.end_us > t.start_us
join device_price p
    on p.cluster = $cluster and p.device_id = t.device_id and p.profile is not distinct from s.profile
    and p.start_us < least(t.end_us, s.end_us) and p.end_us > greatest(t.start_us, s.start_us)
group by all;
