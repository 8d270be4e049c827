-- A row is a device in a slot of a node: the newest one that was there, without those that were only replaced. One that was moved
-- has a row for each of its slots that nobody took after it. `former`: it is on another node now; from here_us until away_us the slot
-- had a GPU, NULL is always.
with sliced as (
    select gpu from seen where gi >= 0
),
slot_from as (
    select node, slot, arg_min(case when not initial then from_us end, coalesce(from_us, 0)) as here_us
    from slot_turn
    group by node, slot
)
select
    n.device_id,
    n.node,
    null::bigint as stay,
    null::varchar as slot,
    n.gpu,
    n.gi,
    n.gpu_index,
    n.profile,
    false as former,
    null::bigint as here_us,
    null::bigint as away_us
from seen n
where n.node is not null
    and not (n.gi = -1 and n.gpu in (select gpu from sliced))
    and n.gpu not in (select gpu from slot_turn where moved or to_us is not null)
union all
select
    n.device_id,
    t.node,
    t.number,
    t.slot,
    n.gpu,
    n.gi,
    s.gpu_index,
    n.profile,
    not t.final,
    f.here_us,
    t.to_us
from slot_turn t
join stay s on s.gpu = t.gpu and s.number = t.number
join seen n on n.gpu = t.gpu and n.first_us <= s.last_us and n.last_us >= s.first_us
join slot_from f on f.node = t.node and f.slot = t.slot
where t.moved and t.newest
    and not (n.gi = -1 and n.gpu in (select gpu from sliced))
order by node, gpu_index, gpu, gi, stay;
