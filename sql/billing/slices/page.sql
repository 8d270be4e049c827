-- A row of slice_page is a row of slice_hold as it is published: its microseconds and cents are rounded by largest
-- remainder within its parent's, so that both say the same.
create or replace temp table slice_page as
with divided as (
    select
        h.key,
        h.parent,
        r.micros as parent_micros,
        r.cents as parent_cents,
        h.units // $scale as micros,
        h.units - h.units // $scale * $scale as units_left,
        h.amount // $cent as cents,
        h.amount - h.amount // $cent * $cent as amount_left
    from slice_hold h
    join rounded r on r.key = h.parent
),
ranked as (
    select
        *,
        row_number() over (partition by parent order by units_left desc, key) as micros_rank,
        row_number() over (partition by parent order by amount_left desc, key) as cents_rank,
        sum(micros) over (partition by parent) as floor_micros,
        sum(cents) over (partition by parent) as floor_cents
    from divided
),
published as (
    select
        key,
        micros + case when micros_rank <= parent_micros - floor_micros then 1 else 0 end as micros,
        cents + case when cents_rank <= parent_cents - floor_cents then 1 else 0 end as cents
    from ranked
    where key > $offset and ($limit is null or key <= $offset + $limit)
)
select h.*, p.micros, p.cents
from published p
join slice_hold h using (key);
