-- The span in which the cluster and each of its nodes are known.
-- A node list without times is dated to the end of the cluster's other records, never to the date of the file.
create or replace temp table fleet_span as
select min(start_us) as start_us, max(end_us) as end_us
from (
    select first_us - first_interval_us // 2 as start_us, last_us + last_interval_us // 2 as end_us from seen
    union all
    select start_us, end_us from wanted
    union all
    select first_us, last_us from site
);

create or replace temp table node_evidence as
select node, min(start_us) as start_us, max(end_us) as end_us
from (
    select node, first_us - first_interval_us // 2 as start_us, last_us + last_interval_us // 2 as end_us from seen
    union all
    select node, start_us, end_us from wanted where not nested
    union all
    select
        node,
        coalesce(first_us, (select end_us from fleet_span)),
        coalesce(last_us, (select end_us from fleet_span))
    from site
)
where node is not null
group by node;
