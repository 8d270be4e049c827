-- A row of charge_rest is money of one day that is not device time: a share charged to a team or taken from the platform, left by
-- a basis or a discount, added by increments of billing, moved for lost work, or beyond what devices cost. weight of total: by what it
-- was dealt; pool_amount: the amount that was divided, NULL where nothing was.
create or replace temp table charge_rest as
with own as (
    select
        day_us,
        kind,
        cause,
        external,
        place,
        owner,
        cluster,
        pool,
        gpu_model,
        part < 3 and amount < 0 as given,
        case when part = 1 then -amount else amount end as amount
    from line
    where kind = $kind
        and case when $by_cause or external then cause end is not distinct from $cause
        and not (kind = 'allocated' and cause is null)
        and not (kind = 'platform' and units > 0)
        and lacks = ($currency is null)
        and currency is not distinct from $currency
        and ($cluster is null or cluster = $cluster)
        and ($pool is null or pool = $pool)
        and coalesce(list_contains($teams::varchar[], owner), true)
        and (not $by_team or owner is not distinct from $of_team)
        and (not $by_user or user is not distinct from $of_user)
        and (not $by_queue or queue is not distinct from $of_queue)
        and (not $by_namespace or namespace is not distinct from $of_namespace)
        and (not $by_account or account is not distinct from $of_account)
        and (not $by_job or job is not distinct from $of_job)
        and (not $by_gpu_model or gpu_model is not distinct from $of_gpu_model)
        and (not $by_mig_profile or mig_profile is not distinct from $of_mig_profile)
        and (not $by_slice or slice is not distinct from $of_slice)
        and (not $by_cluster or cluster is not distinct from $of_cluster)
        and (not $by_pool or pool is not distinct from $of_pool)
),
summed as (
    select day_us, kind, cause, external, place, cluster, pool, gpu_model, given, sum(amount) as amount
    from own
    group by all
    having sum(amount) <> 0
),
weight as (
    select y.day_us, y.cause, y.place, sum(y.weight) as weight, any_value(y.total) as total
    from payer y
    join (select distinct day_us, cause, place, owner from own where kind = 'shared' and not external) o
        using (day_us, cause, place, owner)
    group by all
),
money as (
    select day_us, cause, place, sum(case when part = 1 then -amount else amount end) as amount
    from pool
    where not lacks and currency is not distinct from $currency
    group by all
),
beyond as (
    select day_us, cause, sum(case when part = 1 then -amount else amount end) as amount
    from line
    where external and currency is not distinct from $currency
    group by all
)
select
    row_number() over (
        order by s.day_us, s.external, s.cause, s.cluster, s.pool, s.gpu_model, s.given, s.place
    ) as key,
    s.day_us,
    s.kind,
    s.cause,
    s.external,
    s.cluster,
    s.pool,
    s.gpu_model,
    s.given,
    w.weight::varchar as weight,
    w.total::varchar as total,
    case
        when s.external then b.amount
        when s.kind = 'shared' or s.given then m.amount
    end as pool_amount,
    s.amount
from summed s
left join weight w on w.day_us = s.day_us and w.cause = s.cause and w.place = s.place and not s.external
left join money m on m.day_us = s.day_us and m.cause = s.cause and m.place = s.place and not s.external
left join beyond b on b.day_us = s.day_us and b.cause = s.cause and s.external;
