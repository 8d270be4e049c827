-- A row of keyed is a row of booked, in the order of its words; its rowid decides where parts are equal.
create or replace temp table keyed as
select *
from booked
order by
    step, team, user, queue, namespace, account, job, gpu_model, mig_profile, slice, cluster, pool, bucket_place,
    held desc, lacks, currency, shown desc;

-- A row of rounded is a row of keyed in GPU microseconds and cents, by largest remainder (gpuwatch/money.py), so that all
-- rows add up to their rounded total. $cent is a cent in units of amount.
create or replace temp table rounded as
with divided as (
    select
        rowid as key,
        held,
        shown,
        lacks,
        currency,
        units // $scale as micros,
        units - micros * $scale as units_left,
        amount // $cent as cents,
        amount - cents * $cent as amount_left
    from keyed
),
-- The total is rounded half to even; what its floor lacks goes to the rows with the largest cut-off parts.
short_micros as (
    select
        sum(units_left) // $scale as more,
        more + case
            when 2 * (sum(units_left) - more * $scale) + (sum(micros) + more) % 2 > $scale then 1 else 0
        end as rows
    from divided
),
short_cents as (
    select
        currency,
        sum(amount_left) // $cent as more,
        more + case
            when 2 * (sum(amount_left) - more * $cent) + (sum(cents) + more) % 2 > $cent then 1 else 0
        end as rows
    from divided
    group by currency
),
more_micros as (
    select key
    from (select key, row_number() over (order by units_left desc, key) as place from divided where units_left > 0)
    where place <= (select rows from short_micros)
),
more_cents as (
    select d.key
    from (
        select key, currency, row_number() over (partition by currency order by amount_left desc, key) as place
        from divided
        where amount_left > 0
    ) d
    join short_cents s on s.currency is not distinct from d.currency and d.place <= s.rows
)
select
    d.key,
    d.held,
    d.shown,
    d.lacks,
    d.currency,
    d.micros + case when m.key is null then 0 else 1 end as micros,
    d.cents + case when c.key is null then 0 else 1 end as cents
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
    k.currency,
    k.lacks,
    k.first_us,
    k.amount::varchar as amount,
    p.micros::varchar as micros,
    case when not k.lacks then p.cents::varchar end as cents
from page p
join keyed k on k.rowid = p.key
order by
    case when $dearest_first then not p.held end,
    case when $dearest_first then -p.cents end,
    p.key;
