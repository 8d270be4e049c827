-- A row of failed_run_hour is a device and an hour that a run held shortly before a failure ended it.
create or replace temp table failed_run_hour as
select
    t.run_id,
    t.cluster,
    t.end_us as failed_us,
    s.device_id,
    s.profile,
    s.share_num,
    s.share_den,
    greatest(s.start_us, t.end_us - $before_us) as from_us,
    s.end_us as to_us,
    unnest(
        range(
            greatest(s.start_us, t.end_us - $before_us, $start_us) // 3600000000,
            (least(s.end_us, $end_us) + 3599999999) // 3600000000
        )
    ) * 3600000000 as hour_us
from ended_run t
join segment s on s.run_id = t.run_id and s.cluster = t.cluster
where t.failed and s.end_us > t.end_us - $before_us and s.end_us > $start_us and s.start_us < $end_us;

-- Adds to run_adjustment the productive minutes that the failure destroyed, each at its start.
insert into run_adjustment by name
select
    y.day_us,
    y.policy,
    h.run_id,
    h.cluster,
    h.device_id,
    h.profile,
    m.start_us as at_us,
    'lost_work' as cause,
    -(m.memory_roof_us + m.compute_us)::hugeint * h.share_num * ($scale // h.share_den) as units
from failed_run_hour h
join device_minute m on m.device_id = h.device_id and m.hour_us = h.hour_us and m.cluster = h.cluster
join policy_day y on y.day_us = m.start_us // 86400000000 * 86400000000
where y.lost_work
    and m.start_us >= h.from_us and m.start_us < h.to_us
    and m.start_us >= h.failed_us - y.checkpoint_us
    and m.start_us >= $start_us and m.start_us < $end_us;
