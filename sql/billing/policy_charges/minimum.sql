-- Adds to run_adjustment the time that rounds an ended run up to whole billing increments, at its last microsecond.
insert into run_adjustment by name
with increment as (
    select
        t.run_id,
        t.cluster,
        t.end_us,
        y.policy,
        y.day_us,
        (y.minimum_us - (t.end_us - t.start_us) % y.minimum_us) % y.minimum_us as pad_us
    from ended_run t
    join policy_day y on y.day_us = (t.end_us - 1) // 86400000000 * 86400000000
    where y.minimum_us > 0 and t.end_us - 1 >= $start_us and t.end_us - 1 < $end_us
)
select
    i.day_us,
    i.policy,
    i.run_id,
    i.cluster,
    s.device_id,
    s.profile,
    i.end_us - 1 as at_us,
    'minimum' as cause,
    i.pad_us * s.share_num::hugeint * ($scale // s.share_den) as units
from increment i
join segment s on s.run_id = i.run_id and s.cluster = i.cluster and s.end_us = i.end_us
where i.pad_us > 0;
