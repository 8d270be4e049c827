-- A row of keyed is a row of booked and its number in the order of its words: what decides where parts are equal.
create or replace temp table keyed as
select
    *,
    row_number() over (
        order by
            step, team, user, queue, namespace, account, job, gpu_model, mig_profile, slice, cluster, pool,
            bucket_place, held desc, lacks, currency
    ) as key
from booked;

-- A row of rounded is a row of keyed in GPU microseconds and cents, by largest remainder (gpuwatch/money.py), so that all
-- rows add up to their rounded total. $cent is a cent in units of amount.
create or replace temp table rounded as
with divided as (
    select
        key,
        held,
        currency,
        units // $scale as micros,
        units - micros * $scale as units_left,
        amount // $cent as cents,
        amount - cents * $cent as amount_left
    from keyed
),
ranked as (
    select
        key,
        held,
        currency,
        micros,
        cents,
        row_number() over (order by units_left desc, key) as micros_rank,
        row_number() over (partition by currency order by amount_left desc, key) as cents_rank,
        sum(micros) over () as all_micros,
        sum(units_left) over () as all_units_left,
        sum(cents) over (partition by currency) as all_cents,
        sum(amount_left) over (partition by currency) as all_amount_left
    from divided
),
-- The total is rounded half to even; what its floor lacks goes to the rows with the largest cut-off parts.
missing as (
    select
        *,
        all_units_left // $scale as more_micros,
        all_units_left - more_micros * $scale as units_rest,
        all_amount_left // $cent as more_cents,
        all_amount_left - more_cents * $cent as amount_rest
    from ranked
)
select
    key,
    held,
    currency,
    micros + case
        when micros_rank <= more_micros + case
            when 2 * units_rest + (all_micros + more_micros) % 2 > $scale then 1 else 0
        end then 1
        else 0
    end as micros,
    cents + case
        when cents_rank <= more_cents + case
            when 2 * amount_rest + (all_cents + more_cents) % 2 > $cent then 1 else 0
        end then 1
        else 0
    end as cents
from missing;

-- A row is a published row of the page.
with page as (
    select *
    from rounded
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
join keyed k using (key)
order by
    case when $dearest_first then not p.held end,
    case when $dearest_first then -p.cents end,
    p.key;
