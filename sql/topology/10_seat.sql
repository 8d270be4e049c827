-- A row of topo_name is a name that some source gives a node, and the node: exporters and files may name it with a
-- domain, or in other case, where its scheduler does not.
create or replace temp table topo_name as
with named as (
    select node as name, min(place) as place
    from (
        select node, 1 as place from node where cluster = $cluster
        union all
        select node, 1 from claim where cluster = $cluster
        union all
        select node, 2 from context where cluster = $cluster
        union all
        select node, 3 from link where cluster = $cluster
    )
    where node is not null and node <> ''
    group by node
),
shortened as (
    select
        *,
        case when regexp_full_match(name, '[0-9.:]+') then name else lower(split_part(name, '.', 1)) end as short
    from named
),
-- Among equivalent names the most trusted one is used, if it is the only one of its kind.
trusted as (
    select n.name, list(t.name order by t.place, t.name) as names, list(t.place order by t.place, t.name) as places
    from shortened n
    join shortened t on t.short = n.short and t.place < n.place
    group by n.name
)
select
    n.name,
    case when t.names is null or len(list_filter(t.places, lambda p: p = t.places[1])) > 1 then n.name else t.names[1] end as node
from shortened n
left join trusted t on t.name = n.name;

-- A row of topo_seen is a GPU, a place on a node that its samples name, and since when.
create or replace temp table topo_seen as
with labelled as (
    select c.context_id, c.gpu, n.node, c.gpu_index, n.node || chr(31) || coalesce(c.gpu_index::varchar, '') as seat
    from context c
    join topo_name n on n.name = c.node
    where c.cluster = $cluster and c.gpu is not null
),
-- The time of a change is looked up only if GPUs or places changed.
moved as (
    select gpu from labelled group by gpu having count(distinct seat) > 1
    union
    select gpu
    from labelled
    where gpu_index is not null and seat in (
        select seat from labelled where gpu_index is not null group by seat having count(distinct gpu) > 1
    )
),
seat_record as (
    select l.gpu, l.node, l.gpu_index, l.seat, s.first_us
    from context_span s
    join labelled l using (context_id)
    where l.gpu in (select gpu from moved)
),
changed as (
    select *
    from seat_record
    qualify seat is distinct from lag(seat) over (partition by gpu order by first_us, seat)
)
select gpu, any_value(node) as node, any_value(gpu_index) as gpu_index, 0::bigint as first_us
from labelled
where gpu not in (select gpu from moved)
group by gpu
union all
-- Exporters that keep disagreeing, each with another name for the node, do not show moves: the newest record counts.
select gpu, node, gpu_index, first_us
from changed
qualify count(*) over (partition by gpu) <= $moves_max
    or row_number() over (partition by gpu order by first_us desc, seat desc) = 1;

-- A row of topo_slot is a GPU and the place on a node where it sat during [from_us, until_us).
create or replace temp table topo_slot as
with sat as (
    select
        gpu,
        node,
        gpu_index,
        case
            when row_number() over of_gpu = 1 and row_number() over of_seat = 1 then 0 else first_us
        end as from_us,
        least(
            lead(first_us, 1, $end_us) over of_gpu,
            case when gpu_index is null then $end_us else lead(first_us, 1, $end_us) over of_seat end
        ) as until_us
    from topo_seen
    window
        of_gpu as (partition by gpu order by first_us, node, gpu_index),
        of_seat as (partition by node, gpu_index, case when gpu_index is null then gpu end order by first_us, gpu)
)
select * from sat where from_us < until_us;
