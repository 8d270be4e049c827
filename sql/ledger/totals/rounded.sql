-- A row of rounded is a row of keyed in whole GPU microseconds and cents.
create or replace temp table rounded as
with edge as (
    select unit, shown, currency, external, any_value(sign) as sign, min(place) as place
    from step_place
    where steps = rows
    group by unit, shown, currency, external
)
select
    d.key,
    d.held,
    d.shown,
    d.lacks,
    d.currency,
    d.external,
    d.micros
    + case
        when d.units_place >= m.place and sign(d.units_left) = m.sign then m.sign
        else coalesce(mr.sign, 0)
    end as micros,
    d.cents
    + case
        when d.amount_place >= c.place and sign(d.amount_left) = c.sign then c.sign
        else coalesce(cr.sign, 0)
    end as cents
from divided d
left join (from edge where unit = 'micros') m on m.shown = d.shown
left join (from edge where unit = 'cents') c
    on c.shown = d.shown and c.currency is not distinct from d.currency and c.external = d.external
left join (from step_row where unit = 'micros') mr on mr.key = d.key
left join (from step_row where unit = 'cents') cr on cr.key = d.key;
