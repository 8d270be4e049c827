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

-- A row of payer_weight is a day, a cost, a place, one who pays of it, and the weight of that; weights add up to least_total at least.
create or replace temp table payer_weight as
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
)
select p.day_us, s.cause, p.place, s.owner, s.weight::hugeint as weight, 0::hugeint as least_total
from free_place p
join policy_payer y using (policy)
join scoped s
    on s.day_us = p.day_us and s.policy = p.policy and s.cause = y.cause
    and s.cluster is not distinct from case when y.in_cluster then p.cluster end
    and s.pool is not distinct from case when y.in_pool then p.pool end
    and s.gpu_model is not distinct from case when y.in_model then p.gpu_model end;
