-- A row of keyed is a group of charges or of the ledger, with a number of its own. These statements round them: the largest remainder
-- method (gpuwatch/core/money.py) makes whole GPU microseconds, and cents, add up to their rounded total, device rows to theirs and
-- external rows to their own. Hidden rows are rounded by themselves: what a caller sees does not depend on what is hidden. $cent is one
-- cent in units of amount. Amounts are truncated towards zero because adjustments may be negative.

-- Numbers of 64 bits are divided in a tenth of the time that those of 128 bits take. Most sums fit into 64.
set variable narrow = (
    select
        $scale < 4611686018427387904 and $cent < 4611686018427387904
        and coalesce(max(abs(units)) < 4611686018427387904 and max(abs(amount)) < 4611686018427387904, true)
    from keyed
);

create or replace temp macro truncated(value, size) as
case
    when getvariable('narrow') then (value::bigint // try_cast(size as bigint))::hugeint
    else value // size
end;

-- The size of a remainder in 1024 steps: only the rows of one place have to be sorted.
create or replace temp macro place_of(remainder, size) as floor(abs(remainder)::double / size * 1024)::integer;

-- A row of divided is a row of keyed in whole units, truncated, and the remainders.
create or replace temp table divided as
with whole as (
    select
        key,
        held,
        shown,
        lacks,
        currency,
        external,
        units,
        amount,
        truncated(units, $scale) as micros,
        truncated(amount, $cent) as cents
    from keyed
)
select
    key,
    held,
    shown,
    lacks,
    currency,
    external,
    micros,
    units - micros * $scale as units_left,
    place_of(units_left, $scale) as units_place,
    cents,
    amount - cents * $cent as amount_left,
    place_of(amount_left, $cent) as amount_place
from whole;

-- A row of step_place is a unit, rows that are rounded together, and a place: how many of its rows (sign: of the positive or the
-- negative ones) are changed by one unit. Totals are rounded half to even. The difference to the truncated rows goes to the rows with
-- the largest remainders.
create or replace temp table step_place as
with counted as (
    select
        unit,
        shown,
        currency,
        external,
        size,
        sign(remainder) as sign,
        place,
        count(*) as rows,
        sum(remainder) as left_sum,
        sum(whole) as whole_sum
    from (
        select
            'cents' as unit,
            shown,
            currency,
            external,
            $cent::hugeint as size,
            amount_left as remainder,
            amount_place as place,
            cents as whole
        from divided
        union all
        select 'micros', shown, null, false, $scale::hugeint, units_left, units_place, micros
        from divided
        where $scale > 1
    )
    group by all
),
total as (
    select
        *,
        sum(left_sum) over together as rest_sum,
        rest_sum // size as more,
        abs(rest_sum - more * size) as rest,
        more
        + case when 2 * rest > size or 2 * rest = size and (sum(whole_sum) over together + more) % 2 <> 0 then 1 else 0 end
        * sign(rest_sum) as steps
    from counted
    window together as (partition by unit, shown, currency, external)
),
ranked as (
    select
        *,
        sum(rows) over (partition by unit, shown, currency, external order by place desc) - rows as larger
    from total
    where sign <> 0 and sign = sign(steps)
)
select unit, shown, currency, external, sign, place, rows, least(rows, abs(steps) - larger)::bigint as steps
from ranked
where larger < abs(steps);

-- A row is a place in which some rows are changed and others are not (ledger/totals/step_row.sql).
select 1 from step_place where steps < rows limit 1;
