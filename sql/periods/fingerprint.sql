-- A row is a closed period (closed_period: name, start_us, end_us) and numbers that change when anything does that its
-- charges follow from: books, whose they are, prices. late: hours and days that are not booked, or not rolled, yet.
with booked as (
    select
        p.name,
        count(*) as rows,
        sum(
            hash(
                b.cluster, b.day_us, b.class_id, b.run_id, b.share_num, b.share_den, b.charged_us, b.schedulable_us,
                b.stranded_us, b.out_of_service_us, b.mig_remainder_us, b.unobserved_us, b.hoarded_us, b.gap_us,
                b.communication_us, b.stalled_us, b.below_roof_us, b.memory_roof_us, b.compute_us, r.user_name,
                r.queue, r.namespace, r.account, r.job_id, t.team
            )
        ) as books
    from closed_period p
    join book_day b on b.day_us >= p.start_us and b.day_us < p.end_us
    left join run r on r.run_id = b.run_id
    left join run_team t on t.run_id = b.run_id
    group by p.name
),
priced as (
    select p.name, sum(hash(c)) as prices
    from closed_period p
    join class_price c on c.start_us < p.end_us and c.end_us > p.start_us
    group by p.name
),
rolled as (
    select p.name, count(*) as days
    from closed_period p
    join rolled_day d on d.day_us >= p.start_us and d.day_us < p.end_us
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
    concat_ws(' ', b.rows, b.books, i.prices, r.days) as print,
    coalesce(o.hours, 0) as dirty_hours,
    coalesce(u.days, 0) as unrolled_days
from closed_period p
left join booked b using (name)
left join priced i using (name)
left join rolled r using (name)
left join owed o using (name)
left join unrolled u using (name)
order by p.name;
