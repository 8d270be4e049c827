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
    union all
    select null, since_us from site where not always_off
);

-- A node of an inventory was there since the cluster's first evidence, or since it booted or was created. One without such a time
-- that the inventory listed only a day or more after its first nodes was there since it was listed.
create or replace temp table node_evidence as
with held as (
    select node, first_us - first_interval_us // 2 as start_us, last_us + last_interval_us // 2 as end_us
    from seen
    where gpu not in (select gpu from stay)
    union all
    select node, first_us, last_us from stay
    union all
    select node, start_us, end_us from wanted where not nested
),
proven as (
    select node, min(start_us) as start_us, max(end_us) as end_us from held where node is not null group by node
),
inventory as (
    select min(first_us) as first_us from site
),
listed as (
    select
        s.node,
        case
            -- A job or a sample before the boot shows that the boot was not the node's first.
            when s.created_us <= coalesce(p.start_us, s.created_us) then greatest(s.created_us, f.start_us)
            when s.created_us is null and s.first_us >= i.first_us + 86400000000 then s.first_us
            else f.start_us
        end as start_us,
        coalesce(s.last_us, f.end_us) as end_us
    from site s
    cross join fleet_span f
    cross join inventory i
    left join proven p using (node)
    where s.node is not null and not s.always_off
)
select node, min(start_us) as start_us, max(end_us) as end_us
from (select * from proven union all select * from listed)
group by node;
