-- A row of topo_row is a reported link inside a node; a time of 0 means an undated report.
create or replace temp table topo_row as
select distinct
    n.node,
    coalesce(l.observed_us, 0) as observed_us,
    l.a,
    coalesce(l.b, l.a) as b,
    l.level,
    case when json_valid(l.detail) then l.detail else '{}' end as detail
from link l
join topo_name n on n.name = l.node
where l.cluster = $cluster and l.a is not null and regexp_full_match(l.level, 'X|NV[0-9]{1,3}|C2C|PIX|PXB|PHB|NODE|SYS');

-- A row of topo_statement is a node and its matrix (by digest) during [from_us, until_us): all rows of one instant.
create or replace temp table topo_statement as
with statement as (
    select
        node,
        observed_us as from_us,
        md5(string_agg(a || chr(31) || b || chr(31) || level || chr(31) || detail, chr(30) order by a, b, level, detail)) as digest,
        coalesce(max(detail ->> 'source'), 'topo') as source
    from topo_row
    group by node, observed_us
),
changed as (
    select * from statement
    qualify digest is distinct from lag(digest) over (partition by node order by from_us)
)
select *, lead(from_us, 1, $end_us) over (partition by node order by from_us) as until_us
from changed;

-- A row of topo_matrix is a link of a matrix; nodes of the same build share it.
create or replace temp table topo_matrix as
select s.digest, r.a, r.b, r.level, r.detail
from (select digest, min(node || chr(31) || from_us) as first from topo_statement group by digest) s
join topo_row r on r.node || chr(31) || r.observed_us = s.first;
