-- A row of told_upto is a line, or a row of told_rest behind them, with the sums up to it: what is told of a line is the
-- difference of two rounded sums, so that all that is told adds up to the rounded whole.
create or replace temp table told_upto as
select
    key,
    rest_key,
    units,
    amount,
    sum(units) over (order by key rows unbounded preceding) as units_upto,
    sum(amount) over (order by key rows unbounded preceding) as amount_upto
from (
    select key, null::bigint as rest_key, units, amount
    from told_line
    union all
    select (select count(*) from told_line) + key, key, 0, amount
    from told_rest
);

-- The one row is the sums of all of them.
select
    (select count(*) from told_line) as lines,
    (select count(*) from told_rest) as rest,
    coalesce(sum(units), 0)::varchar as units,
    coalesce(sum(amount), 0)::varchar as amount
from told_upto;
