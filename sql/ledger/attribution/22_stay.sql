-- Finds the GPUs that were moved. Their nodes are known to the scheduler and follow one another: an exporter that names another node
-- now and then, or two that read one GPU, move nothing. A GPU may come back only if samples of each of its stays name a job
-- that was on that node, or if another GPU was in its slot meanwhile. Within a node it moved if one of its slots is one that
-- two GPUs were in: another spelling of addresses makes no such slot.
insert into stay
with place as (
    select c.context_id, c.device_id, c.gpu, coalesce(a.scheduler_node, c.node) as node, c.pci_bus_id, c.gpu_index
    from seen_context c
    left join node_alias a on a.node = c.node
    where c.node is not null
),
contested as (
    select node, pci_bus_id
    from place
    where node in (select node from place where gpu in (select gpu from restless)) and pci_bus_id is not null
    group by node, pci_bus_id
    having count(distinct gpu) > 1
),
placed as (
    select
        p.*,
        case
            when bool_or(c.node is not null) over (partition by p.gpu, p.node)
                and bool_and(p.pci_bus_id is not null) over (partition by p.gpu, p.node)
                then p.pci_bus_id
            else ''
        end as turned_slot
    from place p
    left join contested c on c.node = p.node and c.pci_bus_id = p.pci_bus_id
    where p.gpu in (select gpu from restless)
),
span as (
    select
        p.*,
        s.first_us,
        s.last_us,
        row_number() over (order by p.gpu, s.first_us, s.last_us, p.node, p.turned_slot, p.context_id) as place
    from placed p
    join context_span s on s.device_id = p.device_id and s.context_id = p.context_id
),
other_span as (
    select p.gpu, p.node, p.pci_bus_id, s.first_us, s.last_us
    from place p
    join contested c on c.node = p.node and c.pci_bus_id = p.pci_bus_id
    join context_span s on s.device_id = p.device_id and s.context_id = p.context_id
),
edge as (
    select
        *,
        max(last_us) over (in_time rows between unbounded preceding and 1 preceding) as before_us,
        (node, turned_slot) is distinct from lag((node, turned_slot)) over in_time as changed
    from span
    window in_time as (partition by gpu order by place)
),
returned as (
    select distinct e.place
    from edge e
    join other_span o
        on o.node = e.node and o.pci_bus_id = e.turned_slot and o.gpu <> e.gpu
        and o.first_us > e.before_us and o.last_us < e.first_us
    where not e.changed
),
turn_edge as (
    select e.*, r.place is not null as returns, e.changed or r.place is not null as begins
    from edge e
    left join returned r on r.place = e.place
),
numbered as (
    select
        *,
        count(case when begins then 1 end) over (
            partition by gpu order by place rows unbounded preceding
        ) as number
    from turn_edge
),
turn as (
    select
        gpu,
        number,
        any_value(node) as node,
        any_value(turned_slot) as turned_slot,
        coalesce(arg_max(pci_bus_id, (last_us, pci_bus_id)), 'index ' || arg_max(gpu_index, (last_us, gpu_index))) as slot,
        arg_max(gpu_index, (last_us, gpu_index)) as gpu_index,
        min(first_us) as first_us,
        max(last_us) as last_us,
        coalesce(min(first_us) > max(before_us) filter (where begins), true) as follows,
        bool_or(returns) as returns
    from numbered
    group by gpu, number
),
confirmed as (
    select distinct t.gpu, t.number
    from turn t
    join seen n using (gpu)
    join label_match m
        on m.device_id = n.device_id and m.sure and m.first_us <= t.last_us and m.last_us >= t.first_us
    join wanted w on w.run_id = m.run_id and w.pod_uid is not distinct from m.pod_uid and w.node = t.node
),
moved as (
    select t.gpu
    from turn t
    left join confirmed c using (gpu, number)
    group by t.gpu
    having count(*) > 1
        and bool_and(t.follows)
        and (
            count(distinct (t.node, t.turned_slot)) = 1
            or bool_and(t.node in (select node from wanted where node is not null) or t.node in (select node from site))
        )
        and (count(distinct (t.node, t.turned_slot)) = count(*) filter (where not t.returns) or bool_and(c.number is not null))
)
select
    t.gpu,
    t.number,
    t.node,
    t.slot,
    t.gpu_index,
    t.first_us,
    t.last_us,
    t.number = min(t.number) over (partition by t.gpu),
    t.number = max(t.number) over (partition by t.gpu),
    t.returns
from turn t
join moved using (gpu);
