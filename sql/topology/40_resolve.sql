-- A row of topo_version is a container of a child during a span: where sources differ, the most trusted decides,
-- then the majority, then the first by name. Appends the versions of all of topo_containment.
create or replace temp table topo_valid as
select * from topo_containment where from_us < until_us and parent is not null;

insert into topo_version
with candidate as (
    select
        child, child_kind, parent_kind, parent, level, from_us, until_us, trust,
        min(source) as source,
        max(node) as node,
        min(floor_us) as floor_us,
        count(*) as votes
    from topo_valid
    group by child, child_kind, parent_kind, parent, level, from_us, until_us, trust
),
-- Most relations are reported once, without contradiction.
plain as (
    select child, child_kind, parent_kind from candidate group by all having count(*) = 1
),
edge as (
    select child, child_kind, parent_kind, from_us as at_us from candidate
    union
    select child, child_kind, parent_kind, until_us from candidate
),
edge_span as (
    select *, lead(at_us) over (partition by child, child_kind, parent_kind order by at_us) as end_us
    from edge
    anti join plain using (child, child_kind, parent_kind)
),
decided as (
    select
        p.child, p.child_kind, p.parent_kind, p.at_us, p.end_us, t.parent, t.level, t.trust,
        min(t.source) as source, max(t.node) as node, min(t.floor_us) as floor_us
    from edge_span p
    join candidate t
        on t.child = p.child and t.child_kind = p.child_kind and t.parent_kind = p.parent_kind
        and t.from_us <= p.at_us and t.until_us >= p.end_us
    group by p.child, p.child_kind, p.parent_kind, p.at_us, p.end_us, t.parent, t.level, t.trust
    qualify row_number() over (
        partition by p.child, p.child_kind, p.parent_kind, p.at_us
        order by t.trust, sum(t.votes) desc, t.parent, t.level nulls last
    ) = 1
),
marked as (
    select
        *,
        (
            lag(end_us) over history is distinct from at_us
            or lag(parent) over history is distinct from parent
            or lag(level) over history is distinct from level
        )::integer as starts
    from decided
    window history as (partition by child, child_kind, parent_kind order by at_us)
),
run as (
    select *, sum(starts) over (partition by child, child_kind, parent_kind order by at_us) as number from marked
),
version as (
    select
        child, child_kind, parent_kind, parent, level,
        arg_min(source, (trust, source)) as source,
        max(node) as node,
        min(floor_us) as floor_us,
        min(at_us) as from_us,
        max(end_us) as until_us
    from run
    group by child, child_kind, parent_kind, number, parent, level
    union all
    select child, child_kind, parent_kind, parent, level, source, node, floor_us, from_us, until_us
    from candidate
    semi join plain using (child, child_kind, parent_kind)
)
select
    * exclude (floor_us),
    -- The first version reaches back to where nothing else was known.
    case
        when row_number() over (partition by child, child_kind, parent_kind order by from_us) = 1 then least(floor_us, from_us)
        else from_us
    end as since_us
from version;
