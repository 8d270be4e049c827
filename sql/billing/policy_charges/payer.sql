-- A row of held_team is a team that held something on a day in a place: whole GPU microseconds of the whole day.
create or replace temp table held_team as
select
    day_us,
    policy,
    place,
    cluster,
    pool,
    gpu_model,
    owner,
    (sum(asleep_units + active_units + paid_units) // $scale)::hugeint as held_us
from cell
where part = 0 and held
group by all
having held_us > 0;

-- A row of free_place is a day, a place, and how much of it a quota holder may have to pay: GPU microseconds.
create or replace temp table free_place as
select
    c.day_us,
    c.policy,
    c.place,
    c.cluster,
    c.pool,
    c.gpu_model,
    (
        sum(
            case when y.idle then c.schedulable_units else 0 end + case when y.stranded then c.stranded_units else 0 end
        ) // $scale
    )::hugeint as free_us
from cell c
join (
    select
        policy,
        coalesce(bool_or(cause = 'idle' and payer = 'quota_holder'), false) as idle,
        coalesce(bool_or(cause = 'stranded' and payer = 'quota_holder'), false) as stranded
    from policy_payer
    group by policy
) y using (policy)
where c.part = 0
group by all;

-- A row of payer is a day, a cost, a place, and one who pays of it: weight of total, upto being the sum of the weights so
-- far. Weights are of the whole day, so that the parts of a window pay what the whole pays. Without payers there is no row.
create or replace temp table payer as
with scoped as (
    select
        h.day_us,
        y.policy,
        y.cause,
        case when y.in_cluster then h.cluster end as cluster,
        case when y.in_pool then h.pool end as pool,
        case when y.in_model then h.gpu_model end as gpu_model,
        h.owner,
        case when any_value(y.payer) = 'even' then 1 else sum(h.held_us) end as weight
    from held_team h
    join policy_payer y using (policy)
    -- An even share is a team's; held time without a team pays only by its size.
    where y.payer = 'proportional' or (y.payer = 'even' and not starts_with(h.owner, '__'))
    group by all
),
-- A quota is for the part of the day that the ledger of its cluster covers: today is not over yet.
known_day as (
    select
        y.day_us,
        c.cluster,
        max(least(c.end_us, y.day_us + 86400000000)) - min(greatest(c.start_us, y.day_us)) as known_us
    from (select distinct day_us from policy_day join policy_quota using (policy)) y
    join capacity c on c.start_us < y.day_us + 86400000000 and c.end_us > y.day_us
    group by all
),
quota_day as (
    select
        q.policy,
        q.quota,
        q.team,
        f.day_us,
        max(q.quota_us::hugeint * k.known_us // 86400000000) as quota_us,
        sum(f.free_us) as free_us
    from policy_quota q
    join known_day k on k.cluster = q.cluster
    join free_place f
        on f.policy = q.policy and f.cluster = q.cluster and f.day_us = k.day_us
        and f.pool is not distinct from q.pool
        and f.gpu_model is not distinct from q.gpu_model
    group by q.policy, q.quota, q.team, f.day_us
),
quota_held as (
    select q.policy, q.quota, h.day_us, sum(h.held_us) as held_us
    from policy_quota q
    join held_team h
        on h.policy = q.policy and h.owner = q.team and h.cluster = q.cluster
        and h.pool is not distinct from q.pool
        and h.gpu_model is not distinct from q.gpu_model
    group by q.policy, q.quota, h.day_us
),
-- Each quota pays at most what it leaves free, in billionths of every free GPU in its scope.
quota_part as (
    select
        d.policy,
        d.quota,
        d.team,
        d.day_us,
        least(greatest(d.quota_us - coalesce(h.held_us, 0), 0), d.free_us) * 1000000000 // d.free_us as part
    from quota_day d
    left join quota_held h using (policy, quota, day_us)
    where d.free_us > 0
),
weighed as (
    select p.day_us, s.cause, p.place, s.owner, s.weight::hugeint as weight, 0::hugeint as least_total
    from free_place p
    join policy_payer y using (policy)
    join scoped s
        on s.day_us = p.day_us and s.policy = p.policy and s.cause = y.cause
        and s.cluster is not distinct from case when y.in_cluster then p.cluster end
        and s.pool is not distinct from case when y.in_pool then p.pool end
        and s.gpu_model is not distinct from case when y.in_model then p.gpu_model end
    union all
    select p.day_us, y.cause, p.place, d.team, sum(d.part)::hugeint, 1000000000
    from free_place p
    join policy_payer y using (policy)
    join policy_quota q
        on q.policy = p.policy and q.cluster = p.cluster
        and q.pool is not distinct from p.pool
        and q.gpu_model is not distinct from p.gpu_model
    join quota_part d on d.policy = q.policy and d.quota = q.quota and d.day_us = p.day_us
    where y.payer = 'quota_holder' and d.part > 0
    group by all
)
select
    day_us,
    cause,
    place,
    owner,
    weight,
    sum(weight) over (
        partition by day_us, cause, place order by owner rows between unbounded preceding and current row
    ) as upto,
    greatest(sum(weight) over (partition by day_us, cause, place), least_total) as total
from weighed;
