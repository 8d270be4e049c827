-- A row is a published row of the requested page. With $largest_first, rows are first
-- chosen by their cents, and dimensions only decide among equal ones: so words are read for few rows.
with last_row as (
    select held, cents
    from rounded
    where $largest_first and $limit is not null and shown
    order by not held, -cents
    limit 1
    offset coalesce($offset + $limit - 1, 0)
),
candidate as (
    select r.*
    from rounded r
    left join last_row e on true
    where r.shown and (e.held is null or r.held > e.held or r.held = e.held and r.cents >= e.cents)
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
from candidate p
join keyed k on k.key = p.key
order by
    case when $largest_first then not p.held end,
    case when $largest_first then -p.cents end,
    k.step, k.team, k.user, k.queue, k.namespace, k.account, k.job, k.gpu_model, k.mig_profile, k.slice, k.cluster, k.pool,
    k.period, k.words, k.devices, k.bucket_place,
    k.held desc, k.lacks, k.currency, k.kind, k.external, k.cause
limit $limit
offset $offset;
