-- A row of claimed_time is what findings claim of below_roof, under the same numbers as in bucket_time. billing/ledger_cut_claimed.sql
-- adds cut hours.
create or replace temp table claimed_time as
select
    c.cluster,
    c.hour_us // $step_us as step,
    case when $by_run or $by_team or $teams is not null then c.run_id end as run_id,
    true as held,
    null::varchar as team,
    p.kind_id,
    c.share_num,
    c.share_den,
    sum(c.claimed_us) as claimed_us
from claimed_hour c
join unit u on u.device_id = c.device_id and u.profile is not distinct from c.profile and u.cluster = c.cluster
join priced_unit p on p.unit_id = u.unit_id and p.start_us <= c.hour_us and p.end_us > c.hour_us
where c.hour_us >= $start_us and c.hour_us + 3600000000 <= $end_us
    and (
        c.hour_us not in (select hour_us from cut_span)
        or (c.cluster, c.hour_us // 86400000000 * 86400000000) in (select (cluster, day_us) from whole_day)
    )
group by all;
