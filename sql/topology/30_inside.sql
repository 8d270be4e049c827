-- A row of topo_containment is a source's report that a container holds a child during [from_us, until_us); trust: the smaller
-- number wins. floor_us: before it something else was known to be there. This file: inside nodes.
create or replace temp table topo_containment as
select
    coalesce(m.uuid, s.gpu, t.node || '/' || m.device) as child,
    m.device_kind as child_kind,
    t.node,
    case when m.parent = '' then t.node else t.node || '/' || m.parent end as parent,
    m.parent_kind,
    m.level,
    t.source,
    10 as trust,
    greatest(t.from_us, coalesce(s.from_us, 0)) as from_us,
    least(t.until_us, coalesce(s.until_us, $end_us)) as until_us,
    coalesce(s.from_us, 0) as floor_us
from topo_statement t
join topo_member m on m.digest = t.digest
left join topo_slot s
    on m.uuid is null and s.node = t.node and s.gpu_index = m.gpu_index and s.from_us < t.until_us and s.until_us > t.from_us
union all
select gpu, 'gpu', node, node, 'node', null, 'samples', 90, from_us, until_us, from_us
from topo_slot;

-- A row of topo_pair_source is two GPUs of a node and the level between them during [from_us, until_us).
create or replace temp table topo_pair_source as
with slotted as (
    select
        t.node,
        t.source,
        coalesce(p.a_uuid, x.gpu, t.node || '/' || p.a) as a,
        coalesce(p.b_uuid, y.gpu, t.node || '/' || p.b) as b,
        p.level,
        greatest(t.from_us, coalesce(x.from_us, 0), coalesce(y.from_us, 0)) as from_us,
        least(t.until_us, coalesce(x.until_us, $end_us), coalesce(y.until_us, $end_us)) as until_us,
        greatest(coalesce(x.from_us, 0), coalesce(y.from_us, 0)) as floor_us
    from topo_statement t
    join topo_link p on p.digest = t.digest
    left join topo_slot x
        on p.a_uuid is null and x.node = t.node and x.gpu_index = p.a_index and x.from_us < t.until_us and x.until_us > t.from_us
    left join topo_slot y
        on p.b_uuid is null and y.node = t.node and y.gpu_index = p.b_index and y.from_us < t.until_us and y.until_us > t.from_us
)
select * replace (least(a, b) as a, greatest(a, b) as b)
from slotted
where from_us < until_us and a <> b;
