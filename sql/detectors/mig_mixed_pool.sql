-- A row is a pool and an hour in which it held GPUs in MIG mode beside whole ones of the same model.
-- Reported where a request may land on the wrong kind, or waits for one kind while the other is free.
-- A GPU repartitioned within the hour, or out of service, is of neither kind.
with present as (
    select
        l.hour_us,
        d.pool,
        d.model,
        d.gpu,
        d.node,
        bool_and(l.profile is not null or l.mig_remainder_us > 0) as is_mig,
        bool_and(l.profile is null and l.mig_remainder_us = 0) as is_whole
    from ledger_hour l
    join device d on d.device_id = l.device_id and d.cluster = l.cluster
    where l.cluster = $cluster and l.hour_us >= $since_us and l.hour_us < $until_us and d.pool is not null
    group by l.hour_us, d.pool, d.model, d.gpu, d.node
    having sum(
        l.schedulable_us + l.stranded_us + l.unobserved_us + l.hoarded_us + l.gap_us + l.communication_us + l.stalled_us
        + l.below_roof_us + l.memory_roof_us + l.compute_us
    ) > 0
),
mixed as (
    select
        hour_us,
        pool,
        model,
        count(*) filter (where is_mig) as mig_gpus,
        count(*) filter (where is_whole) as whole_gpus,
        list_sort(list(distinct node) filter (where is_mig)) as mig_nodes
    from present
    group by hour_us, pool, model
    having count(*) filter (where is_mig) > 0 and count(*) filter (where is_whole) > 0
),
-- How each node offers its GPUs: the last record before the end of the evaluated hours.
node_said as (
    select
        node,
        arg_max(scheduler, (coalesce(observed_us, 0), scheduler)) as scheduler,
        arg_max(mig_strategy, (coalesce(observed_us, 0), mig_strategy)) as mig_strategy
    from node
    where cluster = $cluster and coalesce(observed_us, 0) < $until_us
    group by node
),
-- Where slices have a name of their own (Kubernetes strategy mixed, Slurm's gres types) a request names the kind it needs;
-- where that is unknown, nothing is reported.
named_apart as (
    select
        m.hour_us,
        m.pool,
        m.model,
        bool_and(coalesce(s.scheduler = 'slurm' or s.mig_strategy = 'mixed', true)) as is_apart,
        any_value(s.mig_strategy) filter (where s.mig_strategy is distinct from 'mixed') as mig_strategy
    from (select *, unnest(mig_nodes) as node from mixed) m
    left join node_said s on s.node = m.node
    group by m.hour_us, m.pool, m.model
),
-- Requests that a scheduler could not place, from when they were made until they started or were last heard of.
asked as (
    select
        scheduler,
        job_id,
        profile,
        min(submit_us) as from_us,
        coalesce(min(start_us), max(evidence_us)) as to_us,
        max(device_count) as devices,
        -- Partitions are pools.
        case when scheduler = 'slurm' then string_split(arg_max(queue, (evidence_us, queue)), ',') end as pools,
        -- All of them are words of the model: `a10` is not part of A100.
        regexp_extract_all(lower(arg_max(gpu_type, (evidence_us, gpu_type))), '[a-z0-9]+') as type_words,
        arg_max(reason, (evidence_us, reason)) as reason
    from pending
    where cluster = $cluster and job_id is not null and evidence_us >= $from_us and coalesce(submit_us, evidence_us) < $until_us
        and reason is distinct from 'NoLongerWaits' and not coalesce(contains(profile, '/'), false)
    group by scheduler, job_id, profile
),
waiting as (
    select *, profile is not null as wants_mig
    from asked
    where to_us - from_us >= $waited_us_min and devices > 0
        -- Waits for GPUs, not for quota, priority, a dependency or a time.
        and coalesce(reason in ('Unschedulable', 'Resources', 'NotEnoughResources', 'Insufficient'), false)
),
free_hour as (
    select
        l.hour_us,
        d.pool,
        d.model,
        l.device_id,
        d.gpu,
        l.profile is not null as is_mig,
        l.profile,
        sum(l.stranded_us) as stranded,
        sum(l.schedulable_us) as schedulable
    from ledger_hour l
    join device d on d.device_id = l.device_id and d.cluster = l.cluster
    where l.cluster = $cluster and l.hour_us >= $since_us and l.hour_us < $until_us and l.run_id is null
        and l.hour_us in (select hour_us from mixed)
    group by all
    having sum(l.stranded_us + l.schedulable_us) >= $waited_us_min
),
-- What waits for one kind while none of it is free and something else is free in the pool: the other kind, or slices of other
-- profiles. A free GPU of a model that it does not take, or in a partition that it does not name, is not of its kind.
starved as (
    select
        m.hour_us,
        m.pool,
        m.model,
        w.job_id,
        w.wants_mig,
        regexp_extract(lower(w.profile), '[0-9]+g\.[0-9]+gb') as profile,
        w.devices,
        least(w.to_us, m.hour_us + 3600000000) - greatest(w.from_us, m.hour_us) as waited_us
    from mixed m
    join waiting w
        on greatest(w.from_us, m.hour_us) + $waited_us_min <= least(w.to_us, m.hour_us + 3600000000)
        and (w.type_words is null or m.model is null or list_has_all(regexp_extract_all(lower(m.model), '[a-z0-9]+'), w.type_words))
        and coalesce(list_contains(w.pools, m.pool), true)
    where not exists (
        select 1
        from free_hour f
        where f.hour_us = m.hour_us and f.is_mig = w.wants_mig
            and (
                w.profile is null
                or regexp_extract(lower(w.profile), '[0-9]+g\.[0-9]+gb')
                = regexp_extract(lower(f.profile), '[0-9]+g\.[0-9]+gb')
            )
            and (w.type_words is null or f.model is null or list_has_all(regexp_extract_all(lower(f.model), '[a-z0-9]+'), w.type_words))
            and coalesce(list_contains(w.pools, f.pool), true)
    )
    and exists (
        select 1
        from free_hour f
        where f.hour_us = m.hour_us and f.pool = m.pool and f.model is not distinct from m.model
    )
),
need as (
    select
        hour_us,
        pool,
        model,
        wants_mig,
        list(distinct profile) filter (where profile is not null) as profiles,
        count(distinct job_id) as requests,
        sum(devices) as devices,
        max(waited_us) as waited_us
    from starved
    group by hour_us, pool, model, wants_mig
),
lying as (
    select
        f.*,
        n.devices,
        n.waited_us,
        row_number() over (
            partition by f.hour_us, f.pool, f.model, n.wants_mig order by f.is_mig = n.wants_mig, f.gpu, f.device_id
        ) as place
    from free_hour f
    join need n
        on n.hour_us = f.hour_us and n.pool = f.pool and n.model is not distinct from f.model
            and (
                n.wants_mig <> f.is_mig
                or not coalesce(list_contains(n.profiles, regexp_extract(lower(f.profile), '[0-9]+g\.[0-9]+gb')), true)
            )
),
-- As many free devices of the other kind, then of other profiles, as were asked for are idle meanwhile.
part as (
    select
        hour_us,
        pool,
        device_id,
        unnest(['stranded', 'schedulable']) as bucket,
        unnest([least(stranded, waited_us), least(schedulable, waited_us - least(stranded, waited_us))]) as us
    from (
        select hour_us, pool, device_id, stranded, schedulable, max(waited_us) as waited_us
        from lying
        where place <= devices
        group by hour_us, pool, device_id, stranded, schedulable
    )
),
claimed as (
    select
        hour_us,
        pool,
        list({
            'device_id': device_id, 'run_id': null::bigint, 'hour_us': hour_us, 'bucket': bucket, 'us': us::bigint
        }) filter (where us > 0) as claims
    from part
    group by hour_us, pool
),
needy as (
    select hour_us, pool, sum(requests) as requests, sum(devices) as devices, max(waited_us) as waited_us
    from need
    group by hour_us, pool
)
select
    'pool' as subject_kind,
    m.pool as subject_id,
    m.hour_us as start_us,
    least(m.hour_us + 3600000000, $known_until_us) as end_us,
    case when max(n.requests) > 0 then 'high' else 'low' end as severity,
    case when max(n.requests) > 0 then 0.7 else 0.9 end as confidence,
    list_sort(list_distinct(flatten(list(m.mig_nodes)))) as nodes,
    map {
        'mig_gpus': sum(m.mig_gpus)::double,
        'whole_gpus': sum(m.whole_gpus)::double,
        'starved_requests': coalesce(max(n.requests), 0)::double,
        'starved_devices': coalesce(max(n.devices), 0)::double,
        'waited_minutes': round(coalesce(max(n.waited_us), 0) / 60e6, 1)
    } as numbers,
    map {'mig_strategy': coalesce(any_value(a.mig_strategy), case when bool_and(a.is_apart) then 'mixed' else 'unknown' end)}
        as words,
    any_value(c.claims) as claims
from mixed m
join named_apart a on a.hour_us = m.hour_us and a.pool = m.pool and a.model is not distinct from m.model
left join needy n on n.hour_us = m.hour_us and n.pool = m.pool
left join claimed c on c.hour_us = m.hour_us and c.pool = m.pool
where m.hour_us < $known_until_us
group by m.hour_us, m.pool
having max(n.requests) > 0 or not bool_and(a.is_apart)
order by m.hour_us, m.pool;
