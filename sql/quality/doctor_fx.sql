-- A row is a currency other than the reporting one in which part of the fleet's time is priced, and from when to when.
with owned as (
    select k.cluster, k.class_id, min(c.start_us) as start_us, max(c.end_us) as end_us
    from device_class k
    join device d on d.device_id = k.device_id and d.cluster = k.cluster
    join capacity c on c.cluster = k.cluster and c.device_id in (d.device_id, d.parent_id)
    group by k.cluster, k.class_id
)
select
    p.currency,
    count(distinct p.model) as models,
    min(greatest(o.start_us, p.start_us)) as from_us,
    max(least(o.end_us, p.end_us)) as to_us
from class_price p
join owned o on o.cluster = p.cluster and o.class_id = p.class_id
where p.currency <> $currency and p.start_us < o.end_us and p.end_us > o.start_us
group by p.currency
order by p.currency;
