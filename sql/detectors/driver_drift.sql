-- A row is a pool and an hour in which nodes with GPUs of one model ran several drivers, or a job asked for a newer CUDA than
-- its node's driver has. A rollout that is through within a day is no finding (Rule.least_us).
with sampled as (
    select s.hour_us, d.node, arg_max(c.driver, (s.last_us, c.driver)) as driver
    from context_span s
    join context c on c.context_id = s.context_id
    join device d on d.device_id = s.device_id and d.cluster = c.cluster
    where c.cluster = $cluster and s.hour_us >= $since_us and s.hour_us < $until_us
        and c.driver is not null and d.node is not null
    group by s.hour_us, d.node
),
-- Labels of GPU feature discovery, for nodes whose samples name no driver.
labelled as (
    select
        node,
        observed_us,
        labels ->> '$."nvidia.com/cuda.driver-version.full"' as driver,
        coalesce(
            labels ->> '$."nvidia.com/cuda.runtime-version.full"',
            (labels ->> '$."nvidia.com/cuda.runtime.major"') || '.' || (labels ->> '$."nvidia.com/cuda.runtime.minor"')
        ) as cuda
    from node
    where cluster = $cluster and observed_us >= $from_us and observed_us < $until_us
        and node not in (select node from sampled)
        and contains(labels, 'nvidia.com/cuda.driver-version.full')
),
placed as (
    select distinct node, pool, model
    from device
    where cluster = $cluster and node is not null and pool is not null
),
node_driver as (
    select hour_us, node, driver, null::varchar as cuda
    from sampled
    union all
    select h.hour_us, l.node, arg_max(l.driver, (l.observed_us, l.driver)), arg_max(l.cuda, (l.observed_us, l.cuda))
    from (select unnest(range($since_us, $until_us, 3600000000)) as hour_us) h
    join labelled l on l.observed_us < h.hour_us + 3600000000 and l.observed_us >= h.hour_us - ($since_us - $from_us)
    group by h.hour_us, l.node
),
-- CUDA that a driver brings: what is read of the node, else that of its branch (CUDA toolkit release notes).
capable as (
    select
        t.hour_us,
        t.node,
        t.driver,
        p.pool,
        p.model,
        coalesce(
            r.major + r.minor / 100,
            try_cast(regexp_extract(t.cuda, '^[0-9]+') as double)
            + try_cast(regexp_extract(t.cuda, '^[0-9]+[.]([0-9]+)', 1) as double) / 100,
            b.cuda
        ) as cuda
    from node_driver t
    join placed p on p.node = t.node
    left join (
        select
            h.hour_us,
            d.node,
            max(h.cuda_driver_version) // 1000 as major,
            -- 12040 and 12400 are both 12.4.
            max(h.cuda_driver_version) % 1000 // case when max(h.cuda_driver_version) % 100 = 0 then 100 else 10 end as minor
        from device_hour h
        join device d on d.device_id = h.device_id and d.cluster = h.cluster
        where h.cluster = $cluster and h.hour_us >= $since_us and h.hour_us < $until_us and h.cuda_driver_version > 0
        group by h.hour_us, d.node
    ) r on r.hour_us = t.hour_us and r.node = t.node
    left join (
        values
        ('450', 11.00), ('470', 11.04), ('510', 11.06), ('515', 11.07), ('520', 11.08), ('525', 12.00), ('530', 12.01),
        ('535', 12.02), ('545', 12.03), ('550', 12.04), ('555', 12.05), ('560', 12.06), ('565', 12.07), ('570', 12.08),
        ('575', 12.09), ('580', 13.00)
    ) b (branch, cuda) on b.branch = split_part(t.driver, '.', 1)
),
-- The driver of most nodes of a model in a pool; the others are odd.
counted as (
    select hour_us, pool, model, driver, count(*) as nodes
    from capable
    group by hour_us, pool, model, driver
),
usual as (
    select hour_us, pool, model, arg_max(driver, (nodes, driver)) as driver, count(*) as drivers, sum(nodes) as nodes
    from counted
    group by hour_us, pool, model
),
odd as (
    select c.hour_us, c.pool, count(*) as odd_nodes, list_sort(list(distinct c.node)) as nodes
    from capable c
    join usual u on u.hour_us = c.hour_us and u.pool = c.pool and u.model is not distinct from c.model
    where u.drivers > 1 and c.driver <> u.driver
    group by c.hour_us, c.pool
),
spread as (
    select hour_us, pool, string_agg(driver || ' on ' || nodes || case when nodes = 1 then ' node' else ' nodes' end, ', ' order by nodes desc, driver) as drivers
    from counted
    group by hour_us, pool
),
-- The CUDA version a job needs (label gpuwatch.io/cuda-version, as 12.4). Within a major version CUDA runs on older drivers.
asks as (
    select
        run_id,
        state,
        start_us,
        end_us,
        ended,
        labels ->> '$."gpuwatch.io/cuda-version"' as wanted,
        try_cast(regexp_extract(wanted, '^[0-9]+') as integer) as major
    from run
    where cluster = $cluster and start_us < $until_us and end_us > $since_us
        and contains(labels, 'gpuwatch.io/cuda-version')
),
unmet as (
    select
        l.hour_us,
        d.pool,
        d.node,
        a.run_id,
        a.wanted,
        any_value(c.cuda) as cuda,
        bool_or(
            a.ended and a.end_us - a.start_us <= $failed_start_us
            and coalesce(lower(a.state) in ('failed', 'error', 'cancelled'), false)
        ) as is_failed_start,
        list({
            'device_id': l.device_id,
            'run_id': l.run_id,
            'hour_us': l.hour_us,
            'parts': [l.unobserved_us, l.hoarded_us, l.gap_us, l.communication_us, l.stalled_us, l.below_roof_us]
        }) as held
    from asks a
    join ledger_hour l on l.cluster = $cluster and l.run_id = a.run_id
    join device d on d.device_id = l.device_id and d.cluster = l.cluster
    join capable c on c.hour_us = l.hour_us and c.node = d.node and c.model is not distinct from d.model
    where l.hour_us >= $since_us and l.hour_us < $until_us and a.major > floor(c.cuda)
    group by l.hour_us, d.pool, d.node, a.run_id, a.wanted
),
-- Containers that did not start because of the driver, from an event of the pod by the NVIDIA runtime.
refused as (
    select
        greatest(coalesce(e.last_us, e.first_us) // 3600000000 * 3600000000, $since_us) as hour_us,
        p.pool,
        p.node,
        count(distinct e.namespace || '/' || e.name) as pods
    from event e
    join (select distinct namespace, pod, node from claim where cluster = $cluster and pod is not null) c
        on c.namespace = e.namespace and c.pod = e.name
    join placed p on p.node = c.node
    where e.cluster = $cluster and coalesce(e.last_us, e.first_us) >= $since_us and coalesce(e.last_us, e.first_us) < $until_us
        and regexp_matches(
            e.message,
            'unsatisfied condition: cuda|river/library version mismatch|driver version is insufficient|forward compatibility'
            || '|CUDA_ERROR_(SYSTEM_DRIVER_MISMATCH|COMPAT)'
        )
    group by all
),
trouble as (
    select
        hour_us,
        pool,
        count(distinct run_id) as unmet_jobs,
        count(distinct run_id) filter (where is_failed_start) as failed_starts,
        any_value('CUDA ' || wanted || ' on ' || node || ' with ' || round(floor(cuda), 0)::integer || '.' || round(cuda % 1 * 100)::integer)
            as unmet,
        list(distinct node) as nodes
    from unmet
    group by hour_us, pool
),
refusal as (
    select hour_us, pool, sum(pods) as refused_pods, list(distinct node) as nodes
    from refused
    group by hour_us, pool
),
lost as (
    select
        hour_us,
        pool,
        h.device_id,
        h.run_id,
        unnest(['unobserved', 'hoarded', 'gap', 'communication', 'stalled', 'below_roof']) as bucket,
        unnest(h.parts) as us
    from (select hour_us, pool, unnest(held) as h from unmet where is_failed_start)
),
claimed as (
    select
        hour_us,
        pool,
        list({'device_id': device_id, 'run_id': run_id, 'hour_us': hour_us, 'bucket': bucket, 'us': us::bigint})
            filter (where us > 0) as claims
    from lost
    group by hour_us, pool
),
hours as (
    select hour_us, pool from odd
    union
    select hour_us, pool from trouble
    union
    select hour_us, pool from refusal
)
select
    'pool' as subject_kind,
    h.pool as subject_id,
    h.hour_us as start_us,
    least(h.hour_us + 3600000000, $known_until_us) as end_us,
    case
        when t.failed_starts > 0 or r.refused_pods > 0 then 'high'
        when t.unmet_jobs > 0 then 'medium'
        else 'low'
    end as severity,
    list_sort(list_distinct(coalesce(o.nodes, []) || coalesce(t.nodes, []) || coalesce(r.nodes, []))) as nodes,
    map {
        'drivers': (select max(u.drivers) from usual u where u.hour_us = h.hour_us and u.pool = h.pool)::double,
        'nodes': (select sum(u.nodes) from usual u where u.hour_us = h.hour_us and u.pool = h.pool)::double,
        'odd_nodes': coalesce(o.odd_nodes, 0)::double,
        'unmet_jobs': coalesce(t.unmet_jobs, 0)::double,
        'failed_starts': (coalesce(t.failed_starts, 0) + coalesce(r.refused_pods, 0))::double
    } as numbers,
    map {
        'versions': coalesce(s.drivers, ''),
        'odd': array_to_string(coalesce(o.nodes, [])[:5], ', '),
        'unmet': coalesce(t.unmet, '')
    } as words,
    c.claims
from hours h
left join odd o on o.hour_us = h.hour_us and o.pool = h.pool
left join spread s on s.hour_us = h.hour_us and s.pool = h.pool
left join trouble t on t.hour_us = h.hour_us and t.pool = h.pool
left join refusal r on r.hour_us = h.hour_us and r.pool = h.pool
left join claimed c on c.hour_us = h.hour_us and c.pool = h.pool
where h.hour_us < $known_until_us
order by h.hour_us, h.pool;
