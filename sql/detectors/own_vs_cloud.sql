-- A row is a pool whose GPUs are paid for in the more expensive way: owned or reserved where the cloud would cost less, or
-- rented where owning would.
-- own_case (made before) compares the two for each pool and model over the last whole days.
with pool_device as (
    select device_id, pool, model
    from device
    where cluster = $cluster and pool in (select pool from own_case)
),
-- Since when the fleet has the pool.
owned_since as (
    select d.pool, min(c.start_us) as start_us
    from capacity c
    join pool_device d on d.device_id = c.device_id
    where c.cluster = $cluster
    group by d.pool
),
paid as (
    select
        d.pool,
        d.model,
        bool_and(p.pricing in ('on_demand', 'spot')) as is_rented,
        bool_and(p.pricing not in ('on_demand', 'spot')) as is_fixed
    from device_price p
    join pool_device d on d.device_id = p.device_id
    join own_case o on o.pool = d.pool and o.gpu_model is not distinct from d.model
    where p.cluster = $cluster and p.start_us < o.until_us and p.end_us >= o.until_us and p.pricing is not null
    group by d.pool, d.model
),
wrong as (
    select o.*, s.start_us
    from own_case o
    join paid p on p.pool = o.pool and p.model is not distinct from o.gpu_model
    join owned_since s on s.pool = o.pool
    where o.always and o.until_us - s.start_us >= $known_us_min and o.gpus >= $gpus_min
        and ((o.cheaper = 'cloud' and p.is_fixed) or (o.cheaper <> 'cloud' and p.is_rented))
    -- A pool with several models is represented by the most expensive one.
    qualify row_number() over (partition by o.pool order by abs(o.saved_a_month::double) desc, o.gpu_model) = 1
)
select
    'pool' as subject_kind,
    pool as subject_id,
    start_us,
    until_us as end_us,
    true as still,
    'info' as severity,
    case when until_us - start_us >= $sure_us_min then 0.7 else 0.5 end as confidence,
    (select list(distinct node) from device where cluster = $cluster and device.pool = wrong.pool and node is not null) as nodes,
    map {
        'gpus': gpus,
        'utilisation_ratio': utilisation_ratio,
        'break_even_ratio': break_even_ratio,
        'payback_months': payback_months
    } as numbers,
    map {
        'gpu_model': coalesce(gpu_model, ''),
        'paid': coalesce(paid, ''),
        'cheaper': cheaper,
        'owned_price': owned_price,
        'cloud_price': cloud_price,
        'currency': currency,
        'saved_a_month': ltrim(saved_a_month, '-')
    } as words
from wrong
order by pool;
