-- A row is a closed period (closed_period: name, start_us, end_us) and numbers that change when anything may have that its
-- charges follow from: the name of each making of its days (ledger and teams), prices. late: hours and days that are not
-- in the ledger, or not rolled, yet.
with recorded as (
    select p.name, count(*) as days, sum(hash(d.cluster, d.day_us, s.stamp)) as stamps
    from closed_period p
    join rolled_day d on d.day_us >= p.start_us and d.day_us < p.end_us
    join day_stamp s on s.cluster = d.cluster and s.day_us = d.day_us
    group by p.name
),
priced as (
    select p.name, sum(hash(c)) as prices
    from closed_period p
    join class_price c on c.start_us < p.end_us and c.end_us > p.start_us
    group by p.name
),
owed as (
    select p.name, count(*) as hours
    from closed_period p
    join dirty_hour h on h.hour_us >= p.start_us and h.hour_us < p.end_us
    group by p.name
),
known as (
    select
        cluster,
        unnest(range(min(start_us) // 86400000000, (max(end_us) + 86399999999) // 86400000000)) * 86400000000 as day_us
    from segment
    group by cluster
),
unrolled as (
    select p.name, count(*) as days
    from closed_period p
    join known k on k.day_us >= p.start_us and k.day_us < p.end_us
    anti join rolled_day d on d.cluster = k.cluster and d.day_us = k.day_us
    group by p.name
)
select
    p.name,
    concat_ws(' ', r.days, r.stamps, i.prices) as print,
    coalesce(o.hours, 0) as dirty_hours,
    coalesce(u.days, 0) as unrolled_days
from closed_period p
left join recorded r using (name)
left join priced i using (name)
left join owed o using (name)
left join unrolled u using (name)
order by p.name;
