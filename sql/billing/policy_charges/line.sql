-- A row of line is one charge of a part of the window before it is summed: who (owner), kind, why (cause), units and amount.
-- Amounts are whole numbers: of 1 / $basis_parts is what a basis charges of a bucket, of 1 / $factor_parts what a run pays,
-- and prices come in parts of their last decimal that use both up.
create or replace temp table line as
select
    part,
    day_us,
    'allocated' as kind,
    null::varchar as cause,
    false as external,
    owner,
    user,
    queue,
    namespace,
    account,
    job,
    words,
    devices,
    place,
    cluster,
    pool,
    gpu_model,
    mig_profile,
    slice,
    currency,
    lacks,
    asleep_units + active_units + paid_units as units,
    (asleep_units * y.asleep + active_units * y.active + paid_units * $basis_parts)
        * factor
        * (price // ($basis_parts * $factor_parts)) as amount
from cell c
join policy_day y using (day_us)
where held and (part > 0 or day_us >= $from_us and day_us < $to_us);

-- A row of pool is cost left to the platform: unheld time, time outside a basis, and discounts.
create or replace temp table pool as
with counted as (
    select c.*, y.asleep, y.active, price // ($basis_parts * $factor_parts) as plain
    from cell c
    join policy_day y using (day_us)
    where part > 0 or day_us >= $from_us and day_us < $to_us
),
part_of as (
    select *, 'idle' as cause, schedulable_units as units, schedulable_units * price as amount
    from counted
    where not held
    union all
    select *, 'stranded', stranded_units, stranded_units * price
    from counted
    where not held
    union all
    select *, 'out_of_service', out_of_service_units, out_of_service_units * price
    from counted
    where not held
    union all
    select *, 'mig_remainder', mig_remainder_units, mig_remainder_units * price
    from counted
    where not held
    union all
    select
        *,
        'unused',
        0,
        (asleep_units * ($basis_parts - asleep) + active_units * ($basis_parts - active)) * plain * $factor_parts
    from counted
    where held
    union all
    select
        *,
        'discount',
        0,
        (asleep_units * asleep + active_units * active + paid_units * $basis_parts) * ($factor_parts - factor) * plain
    from counted
    where held and factor < $factor_parts
)
select
    part,
    day_us,
    cause,
    place,
    cluster,
    pool,
    gpu_model,
    mig_profile,
    slice,
    devices,
    currency,
    lacks,
    sum(units) as units,
    sum(amount) as amount
from part_of
group by all
having sum(units) > 0 or sum(amount) > 0;

insert into line by name
select *, 'platform' as kind, false as external, '__platform__' as owner
from pool;

-- The divided amounts: cumulative rounding makes the shares add up exactly and never exceed the whole.
create or replace temp table dealt as
select
    p.* exclude (units, amount),
    y.owner,
    p.amount // y.total * y.weight
        + (p.amount % y.total * y.upto) // y.total
        - (p.amount % y.total * (y.upto - y.weight)) // y.total as amount
from pool p
join payer y using (day_us, cause, place)
where p.amount > 0;

insert into line by name
select *, 'shared' as kind, false as external, 0 as units
from dealt
union all by name
select * exclude (owner) replace (-amount as amount), '__platform__' as owner, 'platform' as kind, false as external, 0 as units
from dealt;
