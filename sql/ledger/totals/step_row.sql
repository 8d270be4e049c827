-- A row of step_row is a row that is changed by one unit, in a place in which not all rows are. Dimensions decide between equal remainders.
create or replace temp table step_row as
with part as (
    select d.key, p.unit, p.sign, p.steps, p.shown, p.currency, p.external, abs(d.amount_left) as rest
    from divided d
    join (from step_place where unit = 'cents' and steps < rows) p
        on p.shown = d.shown and p.currency is not distinct from d.currency and p.external = d.external
        and p.place = d.amount_place and p.sign = sign(d.amount_left)
    union all
    select d.key, p.unit, p.sign, p.steps, p.shown, p.currency, p.external, abs(d.units_left)
    from divided d
    join (from step_place where unit = 'micros' and steps < rows) p
        on p.shown = d.shown and p.place = d.units_place and p.sign = sign(d.units_left)
),
numbered as (
    select
        p.key,
        p.unit,
        p.sign,
        p.steps,
        row_number() over (
            partition by p.unit, p.shown, p.currency, p.external
            order by
                p.rest desc,
                k.step, k.team, k.user, k.queue, k.namespace, k.account, k.job, k.gpu_model, k.mig_profile, k.slice, k.cluster,
                k.pool, k.period, k.words, k.devices, k.bucket_place,
                k.held desc, k.lacks, k.currency, k.kind, k.external, k.cause
        ) as number
    from part p
    join keyed k on k.key = p.key
)
select key, unit, sign
from numbered
where number <= steps;
