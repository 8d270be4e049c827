-- A row of keyed is a row of charge_group, ordered by its dimensions; its rowid breaks ties between equal remainders.
create or replace temp table keyed as
select *
from charge_group
order by
    step, team, user, queue, namespace, account, job, gpu_model, mig_profile, slice, cluster, pool, period, words, devices,
    bucket_place,
    held desc, lacks, currency, kind, external, cause, shown desc;

-- A row of rounded is a row of keyed in whole GPU microseconds and cents. The largest remainder method (gpuwatch/core/money.py)
-- makes the rows add up to their rounded total: device rows to theirs, external rows to their own. Hidden rows are rounded by
-- themselves: what a caller sees does not depend on what is hidden. $cent is one cent in units of amount. Amounts are truncated
-- towards zero because adjustments may be negative.
create or replace temp table rounded as
with divided as (
    select
        rowid as key,
        held,
        shown,
        lacks,
        currency,
        external,
        units // $scale as micros,
        units - micros * $scale as units_left,
        amount // $cent as cents,
        amount - cents * $cent as amount_left
    from keyed
),
-- Totals are rounded half to even. The difference to the truncated rows goes to the rows with the largest remainders.
sums as (
    select
        shown,
        sum(units_left) as left_units,
        left_units // $scale as more,
        abs(left_units - more * $scale) as rest,
        more + case when 2 * rest > $scale or 2 * rest = $scale and (sum(micros) + more) % 2 <> 0 then 1 else 0 end
            * sign(left_units) as rows
    from divided
    group by shown
),
cent_sums as (
    select
        shown,
        currency,
        external,
        sum(amount_left) as left_amount,
        left_amount // $cent as more,
        abs(left_amount - more * $cent) as rest,
        more + case when 2 * rest > $cent or 2 * rest = $cent and (sum(cents) + more) % 2 <> 0 then 1 else 0 end
            * sign(left_amount) as rows
    from divided
    group by shown, currency, external
),
more_micros as (
    select key, sign(units_left) as step
    from (
        select
            d.key,
            d.units_left,
            s.rows,
            row_number() over (partition by d.shown order by abs(d.units_left) desc, d.key) as place
        from divided d
        join sums s on s.shown = d.shown and d.units_left * sign(s.rows) > 0
    )
    where place <= abs(rows)
),
more_cents as (
    select key, sign(amount_left) as step
    from (
        select
            d.key,
            d.amount_left,
            s.rows,
            row_number() over (
                partition by d.shown, d.currency, d.external order by abs(d.amount_left) desc, d.key
            ) as place
        from divided d
        join cent_sums s
            on s.shown = d.shown
            and s.currency is not distinct from d.currency
            and s.external = d.external
            and d.amount_left * sign(s.rows) > 0
    )
    where place <= abs(rows)
)
select
    d.key,
    d.held,
    d.shown,
    d.lacks,
    d.currency,
    d.external,
    d.micros + coalesce(m.step, 0) as micros,
    d.cents + coalesce(c.step, 0) as cents
from divided d
left join more_micros m on m.key = d.key
left join more_cents c on c.key = d.key;
