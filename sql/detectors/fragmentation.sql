-- A row is a pool and an hour in which its free GPUs lay so that requests could not use them: by what is usually asked for, or
-- because a request waited that would have fitted had they lain together.
with hourly as (
    select
        p.pool,
        t.hour_us,
        sum((t.end_us - t.start_us)::hugeint * t.gpus * t.milli) / 3.6e12 as free_gpus,
        -- Requests for another model or MIG mode do not show where GPUs are free, nor do those that an empty node is too small for.
        coalesce(
            sum(
                (t.end_us - t.start_us)::hugeint * t.gpus * t.milli
                * ((t.lost - t.misfit) / nullif(t.weight - t.misfit, 0))
            ) filter (where t.gpus < p.size or t.milli < 1000),
            0
        ) / 3.6e12 as lost_gpus,
        coalesce(
            sum((t.end_us - t.start_us)::hugeint * t.gpus * t.milli * ((t.lost - t.misfit) / t.weight)) filter (
                where t.gpus < p.size or t.milli < 1000
            )
            / nullif(sum((t.end_us - t.start_us)::hugeint * t.gpus * t.milli * (t.lost / t.weight)), 0),
            0
        ) as apart_part,
        max(p.size) as node_gpus,
        max(t.gpus) filter (where t.milli = 1000) as largest_gpus
    from stranding t
    join pool_place p on p.place = t.place and p.model = coalesce(t.model, '')
    where t.cluster = $cluster and t.hour_us >= $since_us and t.hour_us < $until_us and not t.partitioned
    group by p.pool, t.hour_us
),
asked as (
    select day_us, requests from asked_day where cluster = $cluster
),
worst as (
    select
        pool,
        hour_us,
        wait,
        any_value(job_id) as job_id,
        any_value(submit_us) as submit_us,
        any_value(shape) as shape,
        any_value(gpus * members) as wanted_gpus,
        min(start_us) as start_us,
        max(end_us) as end_us,
        any_value(models) as models,
        any_value(fit) as fit,
        any_value(unknown) as unknown,
        any_value(class) as class,
        sum(end_us - start_us)::bigint as starved_us,
        exact_mean(free_gpus) as free_gpus,
        -- Of as many of the free GPUs as it wants, those in this pool.
        sum(least(gpus * members / free_gpus, 1) * own_gpus * (end_us - start_us) order by start_us) as unused_us
    from starved
    where hour_us >= $since_us and hour_us < $until_us
    group by pool, hour_us, wait
    qualify row_number() over (
        partition by pool, hour_us order by starved_us desc, wanted_gpus desc, wait
    ) = 1
),
-- What one node could take while the request waited: before, or after it started, it may have been enough.
largest as (
    select w.pool, w.hour_us, max(t.gpus) as gpus
    from worst w
    join pool_place p on p.pool is not distinct from w.pool
    join stranding t
        on t.cluster = $cluster and t.hour_us = w.hour_us and t.place = p.place and coalesce(t.model, '') = p.model
        and t.milli = 1000 and not t.partitioned and t.start_us < w.end_us and t.end_us > w.start_us
    group by w.pool, w.hour_us
),
found as (
    select
        h.pool,
        h.hour_us,
        h.free_gpus,
        -- A handful of requests do not show what is usual.
        case when a.requests >= $requests_min then h.lost_gpus / nullif(h.free_gpus, 0) end as fragmentation_ratio,
        h.node_gpus,
        case when w.wait is null then h.largest_gpus else m.gpus end as largest_gpus,
        h.apart_part,
        w.job_id,
        w.submit_us,
        w.shape,
        w.wanted_gpus,
        w.starved_us,
        w.wait,
        coalesce(fragmentation_ratio >= $fragmentation_min and h.free_gpus >= h.node_gpus, false) as split_up,
        w.models,
        w.fit,
        w.unknown,
        w.class,
        w.unused_us,
        w.start_us as starved_from_us,
        w.end_us as starved_to_us
    from hourly h
    left join asked a on a.day_us = h.hour_us // 86400000000 * 86400000000
    left join worst w on w.pool is not distinct from h.pool and w.hour_us = h.hour_us
    left join largest m on m.pool is not distinct from h.pool and m.hour_us = h.hour_us
),
free_device as (
    select
        f.pool,
        f.hour_us,
        l.device_id,
        l.stranded_us,
        l.schedulable_us,
        case when f.split_up then l.stranded_us * f.apart_part else 0 end as split_us,
        case
            when f.wait is not null and coalesce(list_contains(f.models, d.model), f.models is null)
                and (f.fit is null or (f.fit, coalesce(d.node, d.gpu)) in (select (fit, place) from room_fit))
                then (l.stranded_us + l.schedulable_us) * coalesce(r.part, 1)
            else 0
        end as free_us,
        f.unused_us
    from found f
    join device d on d.cluster = $cluster and d.pool is not distinct from f.pool and d.gi < 0 and d.profile is null and d.kind is null
    join ledger_hour l
        on l.cluster = $cluster and l.device_id = d.device_id and l.hour_us = f.hour_us
        and l.run_id is null and l.stranded_us + l.schedulable_us > 0
    left join room_part r on r.class = f.class and r.hour_us = f.hour_us and r.place = coalesce(d.node, d.gpu)
    where (f.split_up or f.wait is not null)
        and l.hour_us >= $since_us and l.hour_us < $until_us
),
-- starved_us: a device's part of as many free GPUs as were waited for; it is free time even where no request of the days
-- before made it stranded.
starved_device as (
    select
        *,
        free_us
        * least(coalesce(unused_us / nullif(sum(free_us) over (partition by pool, hour_us), 0), 0), 1) as starved_us
    from free_device
),
claim_part as (
    select
        pool,
        hour_us,
        device_id,
        unnest(['stranded', 'schedulable']) as bucket,
        unnest([
            greatest(split_us, least(stranded_us, starved_us)),
            least(schedulable_us, starved_us - least(stranded_us, starved_us))
        ]) as us
    from starved_device
),
claimed as (
    select
        pool,
        hour_us,
        list({
            'device_id': device_id,
            'run_id': null::bigint,
            'hour_us': hour_us,
            'bucket': bucket,
            'us': round(us)::bigint
        }) as claims,
        list(distinct device_id) as device_ids
    from claim_part
    where us >= 1
    group by pool, hour_us
)
select
    'pool' as subject_kind,
    coalesce(f.pool, $cluster) as subject_id,
    coalesce(f.pool, $cluster) as subject_name,
    case when f.split_up then f.hour_us else f.starved_from_us end as start_us,
    case
        when f.split_up then least(f.hour_us + 3600000000, $known_until_us)
        else f.starved_to_us
    end as end_us,
    coalesce(c.device_ids, []) as device_ids,
    w.nodes,
    map_from_entries(list_filter([
        ('free_gpus', f.free_gpus),
        ('fragmentation_ratio', f.fragmentation_ratio),
        ('largest_gang_gpus', coalesce(f.largest_gpus, 0)::double),
        ('wanted_gpus', f.wanted_gpus::double),
        ('starved_minutes', f.starved_us / 6e7),
        ('waited_minutes', (f.starved_to_us - f.submit_us) / 6e7),
        ('moved_gpus', w.moved_gpus::double)
    ]::struct(k varchar, v double)[], lambda e: e.v is not null)) as numbers,
    map_from_entries(list_filter([
        ('shape', f.shape),
        ('waiting_job', f.job_id),
        ('not_known', coalesce(w.not_known, f.unknown)),
        ('blockers', nullif(w.blockers, '')),
        ('moves', nullif(w.moves, '')),
        ('plan', case w.exact when true then 'nothing cheaper exists' when false then 'found within bounds' end)
    ]::struct(k varchar, v varchar)[], lambda e: e.v is not null)) as words,
    coalesce(c.claims, []) as claims
from found f
left join claimed c on c.pool is not distinct from f.pool and c.hour_us = f.hour_us
left join starved_word w
    on w.pool is not distinct from f.pool and w.hour_us = f.hour_us and w.wait = f.wait
where f.split_up or f.wait is not null
order by f.pool, f.hour_us;
