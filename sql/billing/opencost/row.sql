-- A row is a step and what its devices are counted under, in one currency: units are microseconds times share in parts of
-- 1 / $scale, amounts are units times price. Buckets are of held time; what they do not tell was not observed.
with price as (
    select distinct price_id, currency, price
    from oc_price
    union all
    select 0, null, 0
),
charged as (
    select
        c.step,
        c.word_id,
        p.currency,
        min(c.first_us) as first_us,
        max(c.last_us) as last_us,
        bool_or(c.share_num < c.share_den) as shared,
        list(distinct c.device_id) as devices,
        sum(c.us::hugeint * (c.share_num * ($scale // c.share_den))) as units,
        sum(c.us::hugeint * (c.share_num * ($scale // c.share_den)) * p.price) as amount
    from oc_charge c
    join price p on p.price_id = c.price_id
    group by c.step, c.word_id, p.currency
),
shared as (
    select *, (share_num * ($scale // share_den))::hugeint as share
    from oc_fact
),
done as (
    select
        f.step,
        f.word_id,
        p.currency,
        sum((f.hoarded_us + f.gap_us) * f.share * p.price) as idle_amount,
        sum(
            avoidable(
                f.hoarded_us, f.gap_us, f.communication_us, f.stalled_us, 0, f.below_roof_us, f.claimed_us
            ) * f.share * p.price
        ) as waste_amount,
        sum(f.hoarded_us * f.share) as hoarded,
        sum(f.gap_us * f.share) as gap,
        sum(f.communication_us * f.share) as communication,
        sum(f.stalled_us * f.share) as stalled,
        sum(f.below_roof_us * f.share) as below_roof,
        sum(f.memory_roof_us * f.share) as memory_roof,
        sum(f.compute_us * f.share) as compute
    from shared f
    join price p on p.price_id = f.price_id
    group by f.step, f.word_id, p.currency
)
select
    c.step,
    w.* exclude (word_id),
    c.currency,
    c.first_us,
    c.last_us,
    c.shared,
    c.devices,
    c.units::varchar as units,
    c.amount::varchar as amount,
    coalesce(d.idle_amount, 0)::varchar as idle_amount,
    coalesce(d.waste_amount, 0)::varchar as waste_amount,
    coalesce(d.hoarded, 0)::varchar as hoarded,
    coalesce(d.gap, 0)::varchar as gap,
    coalesce(d.communication, 0)::varchar as communication,
    coalesce(d.stalled, 0)::varchar as stalled,
    coalesce(d.below_roof, 0)::varchar as below_roof,
    coalesce(d.memory_roof, 0)::varchar as memory_roof,
    coalesce(d.compute, 0)::varchar as compute
from charged c
join oc_word w on w.word_id = c.word_id
left join done d on d.step = c.step and d.word_id = c.word_id and d.currency is not distinct from c.currency
where c.units > 0
order by
    c.step, w.held, w.cluster, w.node, w.namespace, w.controller_kind, w.controller, w.pod, w.container, w.team, w.labels,
    w.account, w.user_name, w.qos, w.job_name, c.currency
limit $rows_max;
