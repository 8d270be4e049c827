-- A row is a pool, its last hour in which a shape was starved there, the wait that lasted longest in it, and its last moment.
with hourly as (
    select
        pool,
        hour_us,
        wait,
        any_value(gpus) as gpus,
        any_value(members) as members,
        any_value(models) as models,
        sum(end_us - start_us)::bigint as starved_us,
        max(end_us) - 1 as at_us
    from starved
    group by pool, hour_us, wait
)
select *
from hourly
qualify row_number() over (
    partition by pool order by hour_us desc, starved_us desc, gpus * members desc, wait
) = 1
order by pool
limit $limit;
