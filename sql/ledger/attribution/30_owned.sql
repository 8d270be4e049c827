-- A row of owned_gpu is a physical GPU and the span in which the fleet owned it: from its first to its last evidence,
-- a vanished one up to the cluster's last sample, unless another UUID took its place in the same slot, its cloud node was
-- powered down, or another cluster has it since: it leaves with its last sample here, and what a job held of it later was not here.
create or replace temp table owned_gpu as
with cluster_end as (
    select max(last_us + last_interval_us // 2) as end_us from seen
),
sampled as (
    select node, min(first_us - first_interval_us // 2) as start_us, min(first_us) as first_us
    from seen
    where node in (select node from site where off_us is null)
    group by node
),
-- A node of an inventory that ran a job an hour or more before the first sample of its GPUs was there before they were sampled:
-- they count as long as those of a node that is never sampled, unless it is a cloud node that was powered down. A GPU whose samples
-- begin later than those was added, or replaced another.
early_node as (
    select n.node, e.start_us, n.first_us + 3600000000 as until_us
    from sampled n
    join node_evidence e using (node)
    where n.node in (
            select w.node from wanted w join sampled s using (node) where not w.nested and w.start_us <= s.start_us - 3600000000
        )
),
early as (
    select s.gpu, any_value(e.start_us) as start_us
    from seen s
    join early_node e using (node)
    group by s.gpu
    having min(s.first_us) < any_value(e.until_us)
        and s.gpu not in (
            select gpu from seen_context where node is not null group by gpu having count(distinct node) > 1
        )
        and s.gpu not in (select gpu from elsewhere)
),
own as (
    select
        gpu,
        min(first_us - first_interval_us // 2) as start_us,
        max(last_us + last_interval_us // 2) as last_us,
        min(first_us) as first_sample_us,
        arg_max(node, (last_us, node)) as node
    from seen
    group by gpu
),
held as (
    select n.gpu, min(h.start_us) as start_us, max(h.end_us) as end_us
    from hold h
    join seen n using (device_id)
    group by n.gpu
),
turn as (
    select gpu, any_value(from_us) filter (where initial) as from_us, any_value(to_us) filter (where final) as to_us
    from slot_turn
    group by gpu
)
select
    o.gpu,
    least(coalesce(t.from_us, y.start_us, o.start_us), h.start_us) as start_us,
    case
        when o.gpu in (select gpu from elsewhere where gone) then o.last_us
        else greatest(coalesce(t.to_us, case when f.off_us >= o.last_us then o.last_us end, e.end_us), h.end_us)
    end as end_us,
    o.first_sample_us,
    o.last_us
from own o
cross join cluster_end e
left join turn t using (gpu)
left join early y using (gpu)
left join held h using (gpu)
left join site f on f.node = o.node;

-- A row of owned_part is a GPU and a span in which the fleet owned it without a break. It is absent while another cluster has it, and
-- while another GPU is in the slot of one that comes back to it.
create or replace temp table owned_part as
with absent as materialized (
    select distinct gpu, from_us, to_us
    from elsewhere
    where from_us < to_us
    union
    select o.gpu, o.to_us as from_us, b.from_us as to_us
    from slot_turn b
    join stay s on s.gpu = b.gpu and s.number = b.number and s.returns
    join slot_turn o on o.gpu = b.gpu and o.number = (select max(number) from stay where gpu = b.gpu and number < b.number)
    where b.from_us > o.to_us
),
edge as (
    select gpu, start_us as at_us from owned_gpu where gpu in (select gpu from absent)
    union
    select gpu, end_us from owned_gpu where gpu in (select gpu from absent)
    union
    select gpu, unnest([from_us, to_us]) from absent
),
part as (
    select gpu, at_us as start_us, lead(at_us) over (partition by gpu order by at_us) as end_us
    from edge
)
select gpu, start_us, end_us
from owned_gpu
where gpu not in (select gpu from absent)
union all
select p.gpu, p.start_us, p.end_us
from part p
join owned_gpu o on o.gpu = p.gpu and p.start_us >= o.start_us and p.end_us <= o.end_us
where not exists (select 1 from absent a where a.gpu = p.gpu and a.from_us <= p.start_us and a.to_us >= p.end_us);

-- Without slices there is none of these (31_slice.sql).
create or replace temp table slice_life (
    gpu varchar, device_id bigint, profile varchar, first_us bigint, last_us bigint, start_us bigint, end_us bigint
);
