-- A row is a pool, its last hour in which a shape was starved there, the wait that lasted longest in it, its last moment, and what one
-- member needs: the nodes that it may use (NULL: any), its CPUs and memory (NULL: not known).
with hourly as (
    select
        pool,
        hour_us,
        wait,
        any_value(gpus) as gpus,
        any_value(members) as members,
        any_value(models) as models,
        any_value(fit) as fit,
        any_value(unknown) as unknown,
        sum(end_us - start_us)::bigint as starved_us,
        max(end_us) - 1 as at_us
    from starved
    group by pool, hour_us, wait
)
select
    h.*,
    w.cpu_milli,
    w.memory_bytes,
    case when h.fit is not null then (select coalesce(list(place), []) from room_fit f where f.fit = h.fit) end as places
from hourly h
join (
    select wait, any_value(cpu_milli) as cpu_milli, any_value(memory_bytes) as memory_bytes
    from room_wait
    group by wait
) w using (wait)
qualify row_number() over (
    partition by pool order by hour_us desc, starved_us desc, gpus * members desc, wait
) = 1
order by pool
limit $limit;
