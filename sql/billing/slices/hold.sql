-- A row of slice_hold is a slice, a layout epoch and one owner, at one price or without a rate: what it took and cost,
-- exactly. parent is the row of keyed that it is a part of.
create or replace temp table slice_hold as
with
-- The first slices in order, as many as the page is thought to need.
named as (
    select distinct cluster, device_id, slice
    from unit
    where slice is not null
),
near as materialized (
    select n.cluster, n.device_id
    from (
        select n.slice, sum(sum(l.spans)) over (order by n.slice) - sum(l.spans) as before
        from slice_life l
        join named n on n.device_id = l.device_id and n.cluster = l.cluster
        group by n.slice
    ) f
    join named n using (slice)
    where $take is null or f.before < $take
),
slice_price as (
    select
        p.*,
        u.cluster as of_cluster,
        u.device_id,
        u.profile,
        min(p.kind_id) over (partition by p.slice, p.currency, p.lacks, case when p.lacks then p.kind_id end) as money
    from unit u
    join priced_unit p using (unit_id)
    where u.slice is not null
),
part as (
    select
        s.cluster,
        s.device_id,
        s.run_id,
        s.profile,
        s.method,
        nullif(concat_ws('+', min(s.split), nullif(max(s.split), min(s.split))), '') as split,
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
    join near n on n.device_id = s.device_id and n.cluster = s.cluster
    join slice_price p
        on p.device_id = s.device_id and p.profile is not distinct from s.profile and p.of_cluster = s.cluster
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
),
-- keyed is a join itself. Materialized, it is joined by slice; else by team alone, which makes millions of rows.
charged as materialized (
    select key, slice, team, held, currency, lacks, gpu_model, mig_profile, cluster, pool
    from keyed
    where slice is not null
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
join charged k
    on k.slice = s.slice and k.team = s.owner and k.held = (s.run_id is not null)
    and k.currency is not distinct from n.currency and k.lacks = n.lacks
    and (
        not n.lacks
        or (
            k.gpu_model is not distinct from n.gpu_model and k.mig_profile is not distinct from n.mig_profile
            and k.cluster is not distinct from n.cluster and k.pool is not distinct from n.pool
        )
    );
