-- A row is a partitioned GPU and an hour in which its instances, hardly used for a week, were idle while a request
-- waited for what would fit in their place.
with standing as (
    select cluster, node, labels, observed_us
    from node
    where cluster = $cluster
    qualify row_number() over (partition by node order by observed_us desc nulls last, labels nulls last) = 1
),
-- Nodes on which idle instances are kept on purpose.
kept_ready as (
    select node
    from standing
    where lower(labels::json ->> '$."gpuwatch.io/mig-headroom"') = 'true'
),
place as (
    select gpu, any_value(node) as node, any_value(pool) as pool, any_value(parent_id) as parent_id
    from device
    where cluster = $cluster and gi >= 0
    group by gpu
),
met as (
    select
        m.hour_us,
        m.gpu,
        m.model,
        m.idle_ids,
        p.node,
        p.parent_id,
        w.job_id,
        w.shape,
        s.serves,
        greatest(w.start_us, m.hour_us) as start_us,
        least(w.end_us, m.hour_us + 3600000000, $known_until_us) as end_us
    from mig_layout m
    join place p using (gpu)
    join mig_serve s on s.model = m.model and s.parts = m.parts
    join room_wait w
        on w.profile is not distinct from s.profile and (w.profile is not null or w.gpus * w.members = 1)
        and list_contains(w.pools, coalesce(p.pool, ''))
        and coalesce(list_contains(w.models, m.model), w.models is null)
        and w.start_us < m.hour_us + 3600000000 and w.end_us > m.hour_us
    where (p.node is null or p.node not in (select node from kept_ready))
        and (w.fit is null or (w.fit, coalesce(p.node, m.gpu)) in (select (fit, place) from room_fit))
),
hourly as (
    select
        hour_us,
        gpu,
        any_value(idle_ids) as idle_ids,
        any_value(node) as node,
        any_value(parent_id) as parent_id,
        min(start_us) as start_us,
        max(end_us) as end_us,
        count(distinct job_id) as waiting,
        max(serves) as serves,
        min_by(job_id, (start_us, job_id)) as job_id,
        min_by(shape, (start_us, job_id)) as shape
    from met
    where end_us > start_us
    group by hour_us, gpu
),
claimed as (
    select
        h.hour_us,
        h.gpu,
        unnest([
            {
                'device_id': l.device_id,
                'run_id': null::bigint,
                'hour_us': l.hour_us,
                'bucket': 'mig_remainder',
                'us': floor(l.mig_remainder_us * ((h.end_us - h.start_us) / 3.6e9))::bigint
            },
            {
                'device_id': l.device_id,
                'run_id': null::bigint,
                'hour_us': l.hour_us,
                'bucket': 'stranded',
                'us': floor(l.stranded_us * ((h.end_us - h.start_us) / 3.6e9))::bigint
            },
            {
                'device_id': l.device_id,
                'run_id': null::bigint,
                'hour_us': l.hour_us,
                'bucket': 'schedulable',
                'us': floor(l.schedulable_us * ((h.end_us - h.start_us) / 3.6e9))::bigint
            }
        ]) as claim
    from hourly h
    join ledger_hour l
        on l.cluster = $cluster and l.hour_us = h.hour_us and l.run_id is null
        and (list_contains(h.idle_ids, l.device_id) or (l.device_id = h.parent_id and l.mig_remainder_us > 0))
    where l.hour_us >= $since_us and l.hour_us < $until_us
),
unused as (
    select
        m.hour_us,
        m.gpu,
        string_agg(distinct w.profile, ', ' order by w.profile) as profiles,
        max(w.week_held_us / w.week_known_us) as held_ratio
    from hourly m
    join slice_week w on w.hour_us = m.hour_us and w.gpu = m.gpu and list_contains(m.idle_ids, w.device_id)
    group by all
)
select
    'gpu' as subject_kind,
    h.gpu as subject_id,
    h.gpu as subject_name,
    h.start_us,
    h.end_us,
    h.idle_ids as device_ids,
    case when h.node is null then [] else [h.node] end as nodes,
    map {
        'idle_instances': len(h.idle_ids)::double,
        'held_ratio': u.held_ratio,
        'waiting_jobs': h.waiting::double,
        'would_serve': h.serves::double,
        'pending_minutes': (h.end_us - h.start_us) / 6e7
    } as numbers,
    map {'profiles': u.profiles, 'waiting_job': h.job_id, 'wanted': h.shape} as words,
    coalesce((
        select list(c.claim) from claimed c where c.hour_us = h.hour_us and c.gpu = h.gpu and c.claim.us > 0
    ), []) as claims
from hourly h
join unused u using (hour_us, gpu)
order by h.gpu, h.hour_us;
