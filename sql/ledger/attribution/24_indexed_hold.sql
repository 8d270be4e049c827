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
    group by g.node, g.gpus
    having count(*) > g.gpus
)
select distinct w.run_id, n.device_id, w.pod_uid, w.start_us, w.end_us, true, false
from (
    select *, unnest(string_split(device_indexes, ',')) as device_index
    from wanted
    where device_indexes is not null and profile is null and not nested
        and not (scheduler = 'ray' and node in (select node from ray_part))
) w
join seen n on n.node = w.node and n.gi = -1 and n.gpu_index = try_cast(w.device_index as integer)
where not exists (select 1 from hold h where h.run_id = w.run_id and h.device_id = n.device_id)
    and not exists (
        select 1
        from seen slice
        where slice.gpu = n.gpu and slice.gi >= 0 and slice.last_us >= w.start_us and slice.first_us <= w.end_us
    );
