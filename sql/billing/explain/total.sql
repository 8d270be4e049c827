-- A row of line_upto is a line, or after the lines a row of charge_rest, with the running sums up to it. The published amount of a
-- line is the difference of two rounded running sums, so that all lines add up to the rounded total.
create or replace temp table line_upto as
select
    key,
    rest_key,
    units,
    amount,
    sum(units) over (order by key rows unbounded preceding) as units_upto,
    sum(amount) over (order by key rows unbounded preceding) as amount_upto
from (
    select key, null::bigint as rest_key, units, amount
    from charge_line
    union all
    select (select count(*) from charge_line) + key, key, 0, amount
    from charge_rest
);

-- The one row is the sums of all of them.
select
    (select count(*) from charge_line) as lines,
    (select count(*) from charge_rest) as rest,
    coalesce(sum(units), 0)::varchar as units,
    coalesce(sum(amount), 0)::varchar as amount
from line_upto;
