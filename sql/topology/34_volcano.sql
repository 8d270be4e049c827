-- A row of topo_hyper is a HyperNode and its members during [from_us, until_us).
create or replace temp table topo_hyper as
with hyper_record as (
    select a as hyper, coalesce(observed_us, 0) as from_us, max(detail) as detail
    from link
    where cluster = $cluster and level = 'HYPERNODE' and json_valid(detail)
    group by all
),
changed as (
    select * from hyper_record
    qualify detail is distinct from lag(detail) over (partition by hyper order by from_us)
)
select
    hyper,
    (detail ->> 'tier')::integer as tier,
    from_json(
        detail -> 'members',
        '[{"type":"VARCHAR","name":"VARCHAR","regex":"VARCHAR","expressions":[{"key":"VARCHAR","operator":"VARCHAR","values":["VARCHAR"]}]}]'
    ) as members,
    from_us,
    lead(from_us, 1, $end_us) over (partition by hyper order by from_us) as until_us
from changed;

create or replace temp table topo_hyper_member as
select hyper, from_us, until_us, member.type as type, member.name as name, member.regex as regex, member.expressions as expressions
from (select hyper, from_us, until_us, unnest(members) as member from topo_hyper);

-- Resolves members to nodes and HyperNodes, using those that are known now.
create or replace temp table topo_hyper_child as
with newest_label as (
    select node, labels from topo_label where until_us = $end_us
),
expression as (
    select rowid as member, unnest(expressions) as one from topo_hyper_member where expressions is not null
),
matched as (
    select e.member, l.node
    from expression e
    cross join newest_label l
    group by e.member, l.node
    having bool_and(
        case e.one.operator
            when 'In' then coalesce(list_contains(e.one.values, l.labels ->> e.one.key), false)
            when 'NotIn' then not coalesce(list_contains(e.one.values, l.labels ->> e.one.key), false)
            when 'Exists' then (l.labels ->> e.one.key) is not null
            else (l.labels ->> e.one.key) is null
        end
    )
)
select m.hyper, coalesce(n.node, m.name) as child, 'Node' as type, m.from_us, m.until_us
from topo_hyper_member m
left join topo_name n on n.name = m.name
where m.type = 'Node' and m.name is not null
union
select m.hyper, n.node, 'Node', m.from_us, m.until_us
from topo_hyper_member m
join topo_name n on try(regexp_matches(n.name, m.regex))
where m.type = 'Node' and m.regex is not null
union
select m.hyper, x.node, 'Node', m.from_us, m.until_us
from topo_hyper_member m
join matched x on x.member = m.rowid
where m.type = 'Node'
union
select m.hyper, h.hyper, 'HyperNode', m.from_us, m.until_us
from topo_hyper_member m
join (select distinct hyper from topo_hyper) h on h.hyper = m.name or try(regexp_matches(h.hyper, m.regex))
where m.type = 'HyperNode' and h.hyper <> m.hyper;

insert into topo_containment
with recursive above as (
    select child as node, hyper, from_us, until_us, 1 as depth
    from topo_hyper_child
    where type = 'Node'
    union
    select a.node, c.hyper, greatest(a.from_us, c.from_us), least(a.until_us, c.until_us), a.depth + 1
    from above a
    join topo_hyper_child c on c.type = 'HyperNode' and c.child = a.hyper
    where a.depth < $depth_max and greatest(a.from_us, c.from_us) < least(a.until_us, c.until_us)
),
tiered as (
    select tier, dense_rank() over (order by tier) - 1 as place from (select distinct tier from topo_hyper)
)
select distinct a.node, 'node', a.node, a.hyper, k.kind, null, 'volcano', 55, greatest(a.from_us, h.from_us), least(a.until_us, h.until_us), 0
from above a
join topo_hyper h on h.hyper = a.hyper and h.from_us < a.until_us and h.until_us > a.from_us
join tiered t on t.tier = h.tier
join topo_tier k on k.tier = t.place;
