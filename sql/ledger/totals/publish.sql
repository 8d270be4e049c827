-- A row is a published row of the requested page.
with page as (
    select *
    from rounded
    where shown
    order by
        case when $largest_first then not held end,
        case when $largest_first then -cents end,
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
    k.period,
    k.words,
    k.devices,
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
    case when $largest_first then not p.held end,
    case when $largest_first then -p.cents end,
    p.key;
