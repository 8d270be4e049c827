-- A row of keyed is a row of booked, in the order of its words; its rowid decides where parts are equal.
create or replace temp table keyed as
select *
from booked
order by
    step, team, user, queue, namespace, account, job, gpu_model, mig_profile, slice, cluster, pool, bucket_place,
    held desc, lacks, currency, kind, external, cause, shown desc;

-- A row of rounded is a row of keyed in GPU microseconds and cents, by largest remainder (gpuwatch/core/money.py), so that all
-- rows add up to their rounded total: those of devices to theirs, what is external to its own. $cent is a cent in units of
-- amount. Amounts are cut towards zero: adjustments may be negative.
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
-- The total is rounded half to even; what its cut parts lack goes to the rows with the largest cut-off parts.
sums as (
    select
        sum(units_left) as left_units,
        left_units // $scale as more,
        abs(left_units - more * $scale) as rest,
        more + case when 2 * rest > $scale or 2 * rest = $scale and (sum(micros) + more) % 2 <> 0 then 1 else 0 end
            * sign(left_units) as rows
    from divided
),
cent_sums as (
    select
        currency,
        external,
        sum(amount_left) as left_amount,
        left_amount // $cent as more,
        abs(left_amount - more * $cent) as rest,
        more + case when 2 * rest > $cent or 2 * rest = $cent and (sum(cents) + more) % 2 <> 0 then 1 else 0 end
            * sign(left_amount) as rows
    from divided
    group by currency, external
),
more_micros as (
    select key, sign(units_left) as step
    from (
        select
            d.key,
            d.units_left,
            s.rows,
            row_number() over (order by abs(d.units_left) desc, d.key) as place
        from divided d
        join sums s on d.units_left * sign(s.rows) > 0
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
            row_number() over (partition by d.currency, d.external order by abs(d.amount_left) desc, d.key) as place
        from divided d
        join cent_sums s
            on s.currency is not distinct from d.currency
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

-- A row is a published row of the page.
with page as (
    select *
    from rounded
    where shown
    order by
        case when $dearest_first then not held end,
        case when $dearest_first then -cents end,
        key
    limit $limit
    offset $offset
)
select
    k.step,
    k.team,
    k.user,
    k.queue,
    k.namespace,
    k.account,
    k.job,
    k.gpu_model,
    k.mig_profile,
    k.slice,
    k.cluster,
    k.pool,
    k.bucket,
    k.held,
    k.kind,
    k.cause,
    k.external,
    k.currency,
    k.lacks,
    k.first_us,
    k.units::varchar as units,
    k.amount::varchar as amount,
    p.micros::varchar as micros,
    case when not k.lacks then p.cents::varchar end as cents
from page p
join keyed k on k.rowid = p.key
order by
    case when $dearest_first then not p.held end,
    case when $dearest_first then -p.cents end,
    p.key;
