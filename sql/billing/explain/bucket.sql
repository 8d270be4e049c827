-- A row of line_bucket is a line of held time and its device microseconds in each bucket. Whole hours come from ledger_hour, cut
-- hours from bucket_time, which billing/ledger and billing/ledger_cut_bucket_time fill with these alone.
create or replace temp table line_bucket as
with near as (
    select t.key, t.kind_id, t.run_id, t.share_num, t.share_den, t.start_us, t.end_us, u.cluster, u.device_id, u.profile
    from charge_line t
    join unit u on u.unit_id = t.unit_id
    where t.key between $first and $last and t.run_id is not null
),
near_hour as (
    select l.*
    from ledger_hour l
    where l.hour_us >= $start_us and l.hour_us + 3600000000 <= $end_us
        and l.run_id in (select run_id from near)
        and l.hour_us not in (select hour_us from cut_span)
),
part as (
    select
        n.key,
        columns('^(unobserved|hoarded|gap|communication|stalled|below_roof|memory_roof|compute)_us$')
    from near n
    join near_hour l
        on l.device_id = n.device_id
        and l.run_id = n.run_id
        and l.profile is not distinct from n.profile
        and l.cluster = n.cluster
        and l.share_num = n.share_num
        and l.share_den = n.share_den
    where l.hour_us < n.end_us and l.hour_us + 3600000000 > n.start_us
    union all
    select
        n.key,
        columns('^(unobserved|hoarded|gap|communication|stalled|below_roof|memory_roof|compute)_us$')
    from near n
    join bucket_time p
        on p.kind_id = n.kind_id
        and p.run_id = n.run_id
        and p.share_num = n.share_num
        and p.share_den = n.share_den
    where p.step * 3600000000 < n.end_us and (p.step + 1) * 3600000000 > n.start_us
)
select
    key,
    sum(columns('(.*)_us$'))::bigint as '\1'
from part
group by key;
