-- Adds to claimed_time what findings claim of the hours that are cut: in proportion to the below_roof time of each part.
insert into claimed_time by name
with part as (
    select s.cluster, s.device_id, s.run_id, s.profile, s.share_num, s.share_den, s.from_us, sum(o.below_roof_us) as us
    from cut_segment s
    join cut_bucket o on o.device_id = s.device_id and o.start_us = s.start_us and o.from_us = s.from_us
    where s.run_id is not null
    group by all
)
select
    t.cluster,
    t.from_us // $step_us as step,
    case when $by_run or $by_team or $teams is not null then t.run_id end as run_id,
    true as held,
    null::varchar as team,
    p.kind_id,
    t.share_num,
    t.share_den,
    sum(t.us::hugeint * c.claimed_us // l.below_roof_us)::bigint as claimed_us
from part t
join claimed_hour c
    on c.cluster = t.cluster and c.device_id = t.device_id and c.run_id = t.run_id
    and c.hour_us = t.from_us // 3600000000 * 3600000000 and c.profile is not distinct from t.profile
    and c.share_num = t.share_num and c.share_den = t.share_den
join (
    select cluster, device_id, run_id, hour_us, profile, share_num, share_den, sum(below_roof_us) as below_roof_us
    from ledger_hour
    where hour_us in (select hour_us from cut_span) and below_roof_us > 0
    group by all
) l
    on l.cluster = c.cluster and l.device_id = c.device_id and l.run_id = c.run_id and l.hour_us = c.hour_us
    and l.profile is not distinct from c.profile and l.share_num = c.share_num and l.share_den = c.share_den
join unit u on u.device_id = t.device_id and u.profile is not distinct from t.profile and u.cluster = t.cluster
join priced_unit p on p.unit_id = u.unit_id and p.start_us <= t.from_us and p.end_us > t.from_us
group by all;
