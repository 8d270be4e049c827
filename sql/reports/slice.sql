-- A row of slice_life is a MIG slice during one stretch of time in which it existed without a break.
create or replace temp table slice_life as
with slice_span as (
    select
        s.cluster,
        d.parent_id,
        s.device_id,
        s.profile,
        greatest(s.start_us, $start_us) as start_us,
        least(s.end_us, $end_us) as end_us
    from segment s
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    where d.gi >= 0 and s.start_us < $end_us and s.end_us > $start_us
),
linked as (
    select
        *,
        start_us > max(end_us) over (
            partition by cluster, device_id, profile
            order by start_us
            rows between unbounded preceding and 1 preceding
        ) as after_break
    from slice_span
),
numbered as (
    select
        *,
        count(*) filter (where after_break) over (
            partition by cluster, device_id, profile order by start_us rows unbounded preceding
        ) as life
    from linked
)
select cluster, parent_id, device_id, profile, min(start_us) as start_us, max(end_us) as end_us
from numbered
group by cluster, parent_id, device_id, profile, life;

-- A row of layout is an epoch of a GPU: the time from one change of its slices to the next. Where prices change their
-- currency, or begin or end, an epoch is parted too, so that a row of it has one kind of money.
create or replace temp table layout as
with money as (
    select
        p.cluster,
        d.parent_id,
        p.start_us,
        lag((p.currency, p.lacks)) over (
            partition by p.cluster, p.device_id, p.profile order by p.start_us
        ) is distinct from (p.currency, p.lacks) as changes
    from priced_device p
    join device d on d.device_id = p.device_id and d.cluster = p.cluster
    where p.slice is not null
),
edge as (
    select cluster, parent_id, start_us as at_us from slice_life
    union
    select cluster, parent_id, end_us from slice_life
    union
    select cluster, parent_id, start_us from money where changes and start_us > $start_us
)
select
    cluster,
    parent_id,
    at_us as start_us,
    lead(at_us) over (partition by cluster, parent_id order by at_us) as end_us
from edge
qualify end_us is not null;

-- A row of slice_hold is a slice, a layout epoch and one owner, at one price or without a rate: what it took and cost,
-- exactly. parent is the row of keyed that it is a part of.
create or replace temp table slice_hold as
with slice_price as (
    select
        *,
        min(kind_id) over (partition by slice, currency, lacks, case when lacks then kind_id end) as money
    from priced_device
    where slice is not null
),
part as (
    select
        s.cluster,
        s.device_id,
        s.run_id,
        s.profile,
        s.share_num,
        s.share_den,
        y.start_us as layout_us,
        p.money,
        min(greatest(s.start_us, p.start_us, y.start_us)) as start_us,
        max(least(s.end_us, p.end_us, y.end_us)) as end_us,
        sum(least(s.end_us, p.end_us, y.end_us) - greatest(s.start_us, p.start_us, y.start_us)) as device_us,
        sum(
            (least(s.end_us, p.end_us, y.end_us) - greatest(s.start_us, p.start_us, y.start_us)) * p.price
        ) as device_amount
    from segment s
    join slice_price p
        on p.device_id = s.device_id and p.profile is not distinct from s.profile and p.cluster = s.cluster
        and p.start_us < s.end_us and p.end_us > s.start_us
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    join layout y
        on y.parent_id = d.parent_id and y.cluster = s.cluster
        and y.start_us < s.end_us and y.end_us > s.start_us and y.start_us < p.end_us and y.end_us > p.start_us
    where s.start_us < $end_us and s.end_us > $start_us
        and greatest(s.start_us, p.start_us, y.start_us) < least(s.end_us, p.end_us, y.end_us)
    group by all
),
owned as materialized (
    select
        s.*,
        k.slice,
        case when s.run_id is null then '__platform__' else coalesce(t.team, '__unallocated__') end as owner
    from part s
    join kind k on k.kind_id = s.money
    left join run_team t on t.run_id = s.run_id and t.cluster = s.cluster
    where $teams is null or list_contains($teams::varchar[], owner)
),
-- Only slices of which the page shows something are worked out, but these wholly: parts are rounded together.
counted as (
    select slice, count(*) as holds, sum(count(*)) over (order by slice) - count(*) as before
    from owned
    group by slice
),
picked as (
    select slice, min(before) over () as skipped
    from counted
    where $limit is null or (before < $offset + $limit and before + holds > $offset)
)
select
    s.* exclude (device_amount, money),
    n.currency,
    n.lacks,
    s.device_us * s.share_num * ($scale // s.share_den) as units,
    s.device_amount * s.share_num * ($scale // s.share_den) as amount,
    k.key as parent,
    p.skipped + row_number() over (
        order by s.slice, s.layout_us, s.start_us, s.end_us, s.run_id, s.share_num, s.share_den, n.currency, n.kind_id
    ) as key
from owned s
join picked p using (slice)
join kind n on n.kind_id = s.money
join keyed k
    on k.slice = s.slice and k.team = s.owner and k.held = (s.run_id is not null)
    and k.currency is not distinct from n.currency and k.lacks = n.lacks
    and (
        not n.lacks
        or (
            k.gpu_model is not distinct from n.gpu_model and k.mig_profile is not distinct from n.mig_profile
            and k.cluster is not distinct from n.cluster and k.pool is not distinct from n.pool
        )
    );

-- A row of slice_page is a row of slice_hold as it is published: its microseconds and cents are dealt by largest
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

-- A row is a published slice_hold with its words.
select
    p.key,
    p.slice,
    d.gpu,
    d.gi,
    p.cluster,
    d.node,
    p.profile,
    d.model as gpu_model,
    d.parent_id,
    p.layout_us,
    p.owner as team,
    r.user_name as user,
    r.job_id as job,
    p.start_us,
    p.end_us,
    p.share_num,
    p.share_den,
    p.device_us::varchar as device_us,
    p.micros::varchar as micros,
    case when not p.lacks then p.cents::varchar end as cents,
    p.currency
from slice_page p
join device d on d.device_id = p.device_id and d.cluster = p.cluster
left join run r on r.run_id = p.run_id and r.cluster = p.cluster
order by p.key;
