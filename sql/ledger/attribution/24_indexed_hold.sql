-- A row of index_turn is a GPU and an index that it had in [from_us, to_us) on its node. An end is NULL where neither the
-- GPU had another index nor the index another GPU on that side: a driver numbers the GPUs that are left when one is gone.
create or replace temp table index_turn as
with used as (
    select n.device_id, n.node, null::bigint as stay, null::varchar as slot, s.gpu_index, min(s.first_us) as first_us, max(s.last_us) as last_us
    from seen_context s
    join seen n using (device_id)
    where n.gi = -1 and n.node is not null and s.gpu_index is not null and n.gpu not in (select gpu from stay)
    group by n.device_id, n.node, s.gpu_index
    union all
    select n.device_id, t.node, t.number, t.slot, t.gpu_index, t.first_us, t.last_us
    from stay t
    join seen n on n.gpu = t.gpu and n.gi = -1
    where t.gpu_index is not null
),
changed as (
    select u.*, other.first_us as other_first_us, other.last_us as other_last_us
    from used u
    join used other on other.node = u.node and other.gpu_index = u.gpu_index and other.device_id <> u.device_id
    union all
    select u.*, other.first_us, other.last_us
    from used u
    join used other
        on other.device_id = u.device_id and (other.gpu_index <> u.gpu_index or other.stay is distinct from u.stay)
),
bound as (
    select
        device_id,
        stay,
        gpu_index,
        any_value(first_us) filter (where other_last_us < first_us) as from_us,
        any_value(last_us) filter (where other_first_us > last_us) as to_us
    from changed
    group by device_id, stay, gpu_index
)
select
    u.device_id,
    u.node,
    u.stay,
    u.slot,
    u.gpu_index,
    b.from_us - n.first_interval_us // 2 as from_us,
    b.to_us + n.last_interval_us // 2 as to_us
from used u
join seen n using (device_id)
left join bound b
    on b.device_id = u.device_id and b.stay is not distinct from u.stay and b.gpu_index = u.gpu_index;

-- If the scheduler reports indexes and there is no label, a whole GPU is found by its index on the node. Ray counts from the
-- first GPU it was given, so its indexes are used only if it was given all of them.
insert into hold
with ray_given as (
    select node, max(list_sum(try_cast(json_extract(devices, '$.*') as integer[]))) as gpus
    from node
    where cluster = $cluster and scheduler = 'ray'
    group by node
),
ray_part as (
    select g.node
    from ray_given g
    join seen n on n.node = g.node and n.gi = -1
    where n.gpu not in (select gpu from slot_turn where final and to_us is not null)
    group by g.node, g.gpus
    having count(*) > g.gpus
)
select
    w.run_id,
    n.device_id,
    w.pod_uid,
    min(greatest(w.start_us, coalesce(i.from_us, w.start_us))),
    max(least(w.end_us, coalesce(i.to_us, w.end_us))),
    true,
    false,
    case when i.stay is not null then w.node end,
    any_value(i.slot)
from (
    select *, unnest(string_split(device_indexes, ',')) as device_index
    from wanted
    where device_indexes is not null and profile is null and not nested
        and not (scheduler = 'ray' and node in (select node from ray_part))
) w
join index_turn i
    on i.node = w.node and i.gpu_index = try_cast(w.device_index as integer)
    and w.start_us < coalesce(i.to_us, w.end_us) and w.end_us > coalesce(i.from_us, w.start_us)
join seen n using (device_id)
where not exists (select 1 from hold h where h.run_id = w.run_id and h.device_id = n.device_id)
    and not exists (
        select 1
        from seen slice
        where slice.gpu = n.gpu and slice.gi >= 0 and slice.last_us >= w.start_us and slice.first_us <= w.end_us
    )
group by w.run_id, n.device_id, w.pod_uid, i.stay, w.node;
