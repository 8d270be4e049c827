-- A row is an hour of: a job that was preempted again and again; a pool in which more was preempted than it has GPUs; a queue
-- in which jobs of higher priority wait behind lower ones that they may displace.
with hour as (
    select unnest(range($since_us // 3600000000, $until_us // 3600000000)) * 3600000000 as hour_us
),
-- Reported preemptions. Drained and failed nodes, and other evictions, have other reasons.
reported as (
    select job_id, end_us as at_us
    from claim
    where cluster = $cluster and upper(state) = 'PREEMPTED'
        and end_us >= $since_us - 2 * $day_us and end_us < $until_us
        and not exists (
            select 1
            from node n
            where n.cluster = $cluster and n.node = claim.node and n.state in ('drain', 'down')
                and coalesce(n.since_us, n.observed_us) between claim.end_us - $day_us and claim.end_us
                and not exists (
                    select 1
                    from node u
                    where u.cluster = $cluster and u.node = n.node and u.state = 'up'
                        and coalesce(u.observed_us, u.since_us) > coalesce(n.since_us, n.observed_us)
                        and coalesce(u.observed_us, u.since_us) <= claim.end_us
                )
        )
    union
    select job_id, evicted_us
    from workload
    where cluster = $cluster and job_id is not null
        and evicted_us >= $since_us - 2 * $day_us and evicted_us < $until_us
        and (scheduler = 'slurm' or reason = 'Preempted' or (detail ->> '$.preempted_by') is not null)
    union
    select w.job_id, e.last_us
    from event e
    join (
        select distinct namespace, name, job_id
        from workload
        where cluster = $cluster and scheduler = 'kueue' and job_id is not null
    ) w on w.namespace is not distinct from e.namespace and w.name = e.name
    where e.cluster = $cluster and e.object_kind = 'Workload' and e.reason in ('Preempted', 'EvictedDueToPreempted')
        and e.last_us >= $since_us - 2 * $day_us and e.last_us < $until_us
    union
    select c.job_id, e.last_us
    from event e
    join (
        select distinct namespace, pod, job_id
        from claim
        where cluster = $cluster and scheduler = 'kubernetes' and pod is not null
    ) c on c.namespace is not distinct from e.namespace and c.pod = e.name
    where e.cluster = $cluster and e.object_kind = 'Pod' and e.reason = 'Preempted'
        and e.last_us >= $since_us - 2 * $day_us and e.last_us < $until_us
),
-- Members of a gang are preempted one after the other, and several sources report one preemption.
preemption as (
    select job_id, at_us
    from (
        select
            job_id,
            at_us,
            at_us - lag(at_us) over (partition by job_id order by at_us) as pause_us
        from reported
    )
    where pause_us is null or pause_us > $same_us
),
ranked as (
    select *, row_number() over (partition by job_id order by at_us) as number
    from preemption
),
-- Kueue counts preemptions: of a workload that is not a day old all of them are the day's.
counted as (
    select
        coalesce(job_id, uid) as job_id,
        observed_us as start_us,
        submit_us + $day_us as end_us,
        preemptions
    from workload
    where cluster = $cluster and preemptions >= $preemptions_min and observed_us < submit_us + $day_us
        and observed_us >= $since_us - $day_us and observed_us < $until_us
),
-- From the last of so many preemptions to a day after the first there were so many in 24 hours.
turn as (
    select last.job_id, last.at_us as start_us, first.at_us + $day_us as end_us
    from ranked last
    join ranked first on first.job_id = last.job_id and first.number = last.number - ($preemptions_min::bigint - 1)
    where first.at_us + $day_us > last.at_us
    union all
    select job_id, start_us, end_us from counted
),
-- The run and the devices that a preemption ended.
ended_hold as (
    select
        p.job_id,
        p.at_us,
        r.run_id,
        s.device_id,
        s.share_num,
        s.share_den,
        r.start_us as run_start_us,
        s.start_us,
        s.end_us,
        d.pool,
        d.model,
        try_cast(r.labels ->> '$."gpuwatch.io/checkpoint-minutes"' as double) as checkpoint_minutes
    from preemption p
    join run r on r.cluster = $cluster and r.job_id = p.job_id
    join segment s
        on s.cluster = $cluster and s.run_id = r.run_id
        and s.end_us between p.at_us - $same_us and p.at_us + $same_us
    join device d on d.cluster = $cluster and d.device_id = s.device_id
),
at_risk as (
    select
        job_id,
        at_us,
        any_value(run_id) as run_id,
        exact_sum((end_us - greatest(start_us, run_start_us))::double * share_num / share_den) / 3600e6 as gpu_hours,
        list(distinct device_id) as device_ids
    from ended_hold
    group by job_id, at_us
),
-- On average half of the work between two checkpoints is lost; without a checkpoint interval the loss is unknown.
lost as (
    select
        h.job_id,
        h.at_us,
        h.run_id,
        h.device_id,
        m.hour_us,
        sum(m.compute_us) as compute_us,
        sum(m.memory_roof_us) as memory_roof_us
    from ended_hold h
    join device_minute m
        on m.cluster = $cluster and m.device_id = h.device_id
        and m.start_us >= greatest(h.run_start_us, h.end_us - (h.checkpoint_minutes * 30e6)::bigint) and m.end_us <= h.end_us
    where h.checkpoint_minutes > 0 and h.checkpoint_minutes * 30e6 <= $day_us
        and m.hour_us >= ($since_us - 3 * $day_us) // 3600000000 * 3600000000 and m.hour_us < $until_us
        and h.job_id in (select job_id from turn)
    group by all
),
thrash_hour as (
    select
        t.job_id,
        h.hour_us,
        min(greatest(t.start_us, h.hour_us)) as start_us,
        max(least(t.end_us, h.hour_us + 3600000000, $known_until_us)) as end_us
    from turn t
    join hour h on h.hour_us < least(t.end_us, $known_until_us) and h.hour_us + 3600000000 > t.start_us
    group by t.job_id, h.hour_us
),
-- A preemption is answered for in the hour in which it was one of so many for the first time.
blamed as (
    select
        p.job_id,
        p.at_us,
        min(t.start_us) // 3600000000 * 3600000000 as hour_us
    from preemption p
    join turn t on t.job_id = p.job_id and t.start_us >= p.at_us and t.end_us - $day_us <= p.at_us
    group by p.job_id, p.at_us
),
claimed as (
    select
        b.job_id,
        b.hour_us,
        list({'device_id': l.device_id, 'run_id': l.run_id, 'hour_us': l.hour_us, 'bucket': l.bucket, 'us': l.us::bigint})
            filter (where l.us > 0) as claims,
        sum(l.us) / 3600e6 as lost_gpu_hours
    from blamed b
    join (
        select job_id, at_us, run_id, device_id, hour_us, unnest([
            {'bucket': 'compute', 'us': compute_us},
            {'bucket': 'memory_roof', 'us': memory_roof_us}
        ], recursive := true)
        from lost
    ) l on l.job_id = b.job_id and l.at_us = b.at_us
    group by b.job_id, b.hour_us
),
thrash as (
    select
        'job' as subject_kind,
        t.job_id as subject_id,
        any_value(o.name) as subject_name,
        any_value(o.run_id) as run_id,
        t.start_us,
        t.end_us,
        'high' as severity,
        list_distinct(flatten(list(k.device_ids))) as device_ids,
        any_value(c.claims) as claims,
        map {
            'preemptions': greatest(count(distinct p.at_us), coalesce(any_value(n.preemptions), 0))::double,
            'ended_gpu_hours': coalesce(sum(k.gpu_hours), 0),
            'lost_gpu_hours': coalesce(any_value(c.lost_gpu_hours), 0)
        } as numbers,
        map {'case': 'thrash'} as words
    from thrash_hour t
    left join (
        select job_id, arg_min(run_id, (start_us, run_id)) as run_id, arg_min(name, (start_us, name)) as name
        from run
        where cluster = $cluster and job_id in (select job_id from turn)
        group by job_id
    ) o on o.job_id = t.job_id
    left join preemption p on p.job_id = t.job_id and p.at_us > t.end_us - $day_us and p.at_us <= t.end_us
    left join at_risk k on k.job_id = p.job_id and k.at_us = p.at_us
    left join claimed c on c.job_id = t.job_id and c.hour_us = t.hour_us
    left join (
        select h.job_id, h.hour_us, max(c.preemptions) as preemptions
        from thrash_hour h
        join counted c on c.job_id = h.job_id and c.start_us < h.end_us and c.end_us > h.start_us
        group by h.job_id, h.hour_us
    ) n on n.job_id = t.job_id and n.hour_us = t.hour_us
    group by t.job_id, t.hour_us, t.start_us, t.end_us
),
pool_size as (
    select coalesce(pool, model, 'unknown') as pool, count(*) as gpus
    from device
    where cluster = $cluster and gi < 0 and profile is null and kind is null
    group by all
),
pool_preemption as (
    select *, row_number() over (partition by pool order by at_us, job_id) as number
    from (
        -- Repeated preemptions of a job are one finding about that job.
        select distinct coalesce(pool, model, 'unknown') as pool, job_id, at_us
        from ended_hold
        where job_id not in (select job_id from turn)
    )
),
pool_turn as (
    select a.pool, z.gpus, a.at_us as start_us, b.at_us + $day_us as end_us
    from pool_preemption a
    join pool_size z using (pool)
    join pool_preemption b on b.pool = a.pool and b.number = a.number - greatest(z.gpus * $pool_rate_max, $preemptions_min - 1)::bigint
    where b.at_us + $day_us > a.at_us
),
pool_hour as (
    select
        t.pool,
        t.gpus,
        h.hour_us,
        min(greatest(t.start_us, h.hour_us)) as start_us,
        max(least(t.end_us, h.hour_us + 3600000000, $known_until_us)) as end_us
    from pool_turn t
    join hour h on h.hour_us < least(t.end_us, $known_until_us) and h.hour_us + 3600000000 > t.start_us
    group by t.pool, t.gpus, h.hour_us
),
busy_pool as (
    select
        'pool' as subject_kind,
        h.pool as subject_id,
        h.pool as subject_name,
        null::bigint as run_id,
        h.start_us,
        h.end_us,
        'high' as severity,
        null::bigint[] as device_ids,
        null::struct(device_id bigint, run_id bigint, hour_us bigint, bucket varchar, us bigint)[] as claims,
        map {
            'preemptions': count(*)::double,
            'pool_gpus': any_value(h.gpus)::double,
            'jobs': count(distinct p.job_id)::double
        } as numbers,
        map {'case': 'pool'} as words
    from pool_hour h
    join pool_preemption p on p.pool = h.pool and p.at_us > h.end_us - $day_us and p.at_us <= h.end_us
    group by all
),
kueue_rule as (
    select name as queue, preemption ->> '$.withinClusterQueue' as rule
    from queue
    where cluster = $cluster and scheduler = 'kueue' and kind = 'cluster_queue' and flavor is null and observed_us < $until_us
    qualify row_number() over (partition by name order by observed_us desc, rowid desc) = 1
),
slurm_rule as (
    select name as qos, unnest(from_json(preemption -> '$.preempts', '["VARCHAR"]')) as victim
    from (
        select *
        from queue
        where cluster = $cluster and scheduler = 'slurm' and kind = 'qos' and observed_us < $until_us
        qualify row_number() over (partition by name order by observed_us desc, rowid desc) = 1
    )
    where lower(coalesce(preemption ->> '$.mode', '')) not in ('off', 'disabled')
),
slurm_off as (
    select name as queue
    from queue
    where cluster = $cluster and scheduler = 'slurm' and kind = 'partition' and observed_us < $until_us
    qualify
        row_number() over (partition by name order by observed_us desc, rowid desc) = 1
        and upper(coalesce(preemption ->> '$.mode', '')) in ('OFF', 'DISABLED')
),
-- A Slurm job may wait in several partitions.
wait_place as (
    select *, unnest(case scheduler when 'slurm' then string_split(queue, ',') else [queue] end) as place
    from wait_span
    where end_us - start_us >= $inverted_us_min
        and case scheduler
            when 'kueue' then queue in (
                select queue from kueue_rule where rule in ('LowerPriority', 'LowerOrNewerEqualPriority')
            )
            when 'slurm' then priority_class in (select qos from slurm_rule)
            else false
        end
),
-- When a lower run could first have been displaced: Slurm does not report its exempt time, so after two hours.
lower_run as (
    select
        w.scheduler,
        w.place,
        w.job,
        w.devices,
        w.start_us as since_us,
        w.end_us as waits_until_us,
        r.devices as victim_devices,
        r.start_us + case r.scheduler when 'slurm' then $spared_us else 0 end as start_us,
        r.end_us
    from wait_place w
    join run_span r on r.scheduler = w.scheduler and r.profile = w.profile and r.queue = w.place
    where r.start_us < w.end_us and r.end_us > w.start_us
        and case w.scheduler
            when 'kueue' then r.priority < w.priority
            else (w.priority_class, r.priority_class) in (select (qos, victim) from slurm_rule)
                and r.queue not in (select queue from slurm_off)
        end
),
-- In an hour: a job that has waited long enough beside lower ones that hold as much as it wants.
inverted_part as (
    select
        l.place as queue,
        l.job,
        h.hour_us,
        any_value(l.devices) as devices,
        any_value(l.since_us) as since_us,
        greatest(h.hour_us, max(l.since_us), min(l.start_us)) as start_us,
        least(h.hour_us + 3600000000, max(l.waits_until_us), max(l.end_us)) as end_us,
        sum(l.victim_devices) as lower_devices
    from lower_run l
    join hour h on h.hour_us < least(l.end_us, l.waits_until_us) and h.hour_us + 3600000000 > greatest(l.start_us, l.since_us)
    where least(l.end_us, l.waits_until_us, h.hour_us + 3600000000) - greatest(l.since_us, l.start_us) >= $inverted_us_min
    group by l.place, l.job, h.hour_us
    having sum(l.victim_devices) >= any_value(l.devices)
),
inverted as (
    select
        'queue' as subject_kind,
        queue as subject_id,
        queue as subject_name,
        null::bigint as run_id,
        min(start_us) as start_us,
        max(end_us) as end_us,
        'high' as severity,
        null::bigint[] as device_ids,
        null::struct(device_id bigint, run_id bigint, hour_us bigint, bucket varchar, us bigint)[] as claims,
        map {
            'waiting_jobs': count(distinct job)::double,
            'waiting_devices': max(devices)::double,
            'longest_wait_minutes': max(end_us - since_us) / 60e6,
            'lower_devices': max(lower_devices)::double
        } as numbers,
        map {'case': 'inversion'} as words
    from inverted_part
    where end_us > start_us
    group by queue, hour_us
)
select * replace (coalesce(subject_name, subject_id) as subject_name)
from (
    select * from thrash
    union all
    select * from busy_pool
    union all
    select * from inverted
)
where start_us >= $since_us and start_us < $until_us and end_us > start_us
order by start_us, subject_kind, subject_id;
