-- A row of topo_switch_row is a switch or block (a) with a node or switch (b) below it, as given by one topology of Slurm's
-- configuration. scope: the plug-in, and the name of the topology in topology.yaml.
create or replace temp table topo_switch_row as
select distinct
    (l.detail ->> 'plugin') || chr(31) || coalesce(l.detail ->> 'topology', '') as scope,
    l.level,
    -- topology.conf is not read where there is a topology.yaml.
    case when (l.detail ->> 'topology') is null then 52 when (l.detail ->> 'default') = 'true' then 50 else 51 end as trust,
    coalesce(l.observed_us, 0) as observed_us,
    l.a,
    case when l.node is null then l.b else n.node end as b,
    l.node is not null as is_node
from link l
left join topo_name n on n.name = l.node
where l.cluster = $cluster and l.level in ('SWITCH', 'BLOCK') and json_valid(l.detail) and (l.detail ->> 'plugin') is not null
    and l.a is not null and l.b is not null;

-- A row of topo_switch_statement is a scope as it was during [from_us, until_us): all rows of one instant.
create or replace temp table topo_switch_statement as
with statement as (
    select
        scope,
        observed_us as from_us,
        md5(string_agg(a || chr(31) || b || chr(31) || is_node || trust, chr(30) order by a, b, is_node, trust)) as digest
    from topo_switch_row
    group by scope, observed_us
),
changed as (
    select * from statement
    qualify digest is distinct from lag(digest) over (partition by scope order by from_us)
)
select scope, from_us, lead(from_us, 1, $end_us) over (partition by scope order by from_us) as until_us
from changed;

-- A switch's tier is its height above the lowest of its nodes, so that a spine with nodes of its own stays a spine.
insert into topo_containment
with recursive statement_row as (
    select s.scope, s.from_us, s.until_us, r.level, r.trust, r.a, r.b, r.is_node
    from topo_switch_statement s
    join topo_switch_row r on r.scope = s.scope and r.observed_us = s.from_us
),
above as (
    select scope, from_us, until_us, level, trust, b as node, a as switch, 0 as height
    from statement_row
    where is_node
    union
    select u.scope, u.from_us, u.until_us, u.level, u.trust, u.node, t.a, u.height + 1
    from above u
    join statement_row t on t.scope = u.scope and t.from_us = u.from_us and not t.is_node and t.b = u.switch
    where u.height + 1 < $depth_max
),
tall as (
    select scope, from_us, switch, max(height) as height from above group by all
)
select distinct
    u.node, 'node', u.node, u.switch,
    case when u.level = 'BLOCK' then 'block' else k.kind end,
    null, 'slurm', u.trust, u.from_us, u.until_us, 0
from above u
join tall t on t.scope = u.scope and t.from_us = u.from_us and t.switch = u.switch
join topo_tier k on k.tier = t.height;
