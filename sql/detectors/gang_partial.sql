-- A row is a gang and an hour in which some of its pods held devices while the rest found no place.
-- Waiting: pods without a node. Pods that pull an image or run init containers have one.
with gang as (
    select
        job_id,
        -- Only members with GPUs count, where Kueue tells which pod sets have some: of DRA claims it tells nothing.
        max(min_count - case
            when len(detail -> '$.pod_sets[*].devices') > 0 then coalesce(list_sum([
                case when json_extract(pods, '$.devices') is null then (pods ->> '$.count')::bigint end
                for pods in from_json(detail -> '$.pod_sets', '["json"]')
            ]), 0)
            else 0
        end)::bigint as pods_min,
        -- It starts with fewer members than it has: it may run as it is.
        bool_or(coalesce(min_count < pod_count, false)) as elastic
    from (
        select *
        from workload
        where cluster = $cluster and min_count is not null and job_id in (select job_id from job_chain)
        qualify
            row_number() over (
                partition by scheduler, kind, uid order by observed_us desc nulls last, rowid desc
            ) = 1
    )
    group by job_id
    having pods_min >= 2
),
request as (
    select distinct
        p.job_id,
        p.profile,
        p.submit_us,
        p.evidence_us,
        coalesce(list_contains(['Unschedulable', 'Undetermined'], p.reason), false) and p.start_us is null as waits,
        p.device_count // greatest(p.node_count, 1) as pod_devices
    from pending p
    join gang g using (job_id)
    where p.cluster = $cluster and p.scheduler = 'kubernetes' and not g.elastic
        and not coalesce(contains(p.profile, '/'), false)
),
request_turn as (
    select
        *,
        lag(waits) over words as waited,
        lag(evidence_us) over words as before_us,
        lead(evidence_us) over words as next_us
    from request
    window words as (partition by job_id, profile order by evidence_us, waits desc)
),
-- A request is valid until its next record; after two hours without one its state is unknown.
waiting as (
    select
        job_id,
        case
            when coalesce(waited and evidence_us - before_us <= $fresh_us, false) then evidence_us
            else least(submit_us, evidence_us)
        end as start_us,
        least(coalesce(next_us, $known_until_us), evidence_us + $fresh_us, $known_until_us) as end_us,
        pod_devices
    from request_turn
    where waits
),
member as (
    select
        job_id,
        min(start_us) as start_us,
        max(end_us) as end_us,
        max(device_count) as devices
    from claim
    where cluster = $cluster and scheduler = 'kubernetes' and start_us is not null
        and job_id in (select job_id from waiting)
    group by job_id, coalesce(pod_uid, pod)
),
edge as (
    select job_id, start_us as at_us, 1 as pods, devices, 0 as waits from member
    union all
    select job_id, end_us, -1, -devices, 0 from member where end_us is not null
    union all
    select job_id, start_us, 0, 0, 1 from waiting where end_us > start_us
    union all
    select job_id, end_us, 0, 0, -1 from waiting where end_us > start_us
),
standing as (
    select
        job_id,
        at_us as start_us,
        coalesce(lead(at_us) over (partition by job_id order by at_us), $known_until_us) as end_us,
        sum(sum(pods)) over so_far as pods,
        sum(sum(devices)) over so_far as devices,
        sum(sum(waits)) over so_far as waits
    from edge
    group by job_id, at_us
    window so_far as (partition by job_id order by at_us)
),
partial as (
    select
        s.*,
        g.pods_min,
        s.start_us is distinct from lag(s.end_us) over (partition by s.job_id order by s.start_us) as begins
    from standing s
    join gang g using (job_id)
    where s.pods > 0 and s.pods < g.pods_min and s.waits > 0 and s.end_us > s.start_us
),
numbered as (
    select *, count(case when begins then 1 end) over (partition by job_id order by start_us) as number
    from partial
),
stretch as (
    select
        job_id,
        min(start_us) as start_us,
        max(end_us) as end_us,
        arg_max(pods, start_us) as pods,
        arg_max(devices, start_us) as devices,
        any_value(pods_min) as pods_min
    from numbered
    group by job_id, number
),
-- One hour of a stretch that has lasted long enough by the end of that hour.
hour_part as (
    select
        c.chain,
        s.*,
        h.hour_us,
        greatest(s.start_us, h.hour_us) as part_start_us,
        least(s.end_us, h.hour_us + 3600000000) as part_end_us,
        (s.pods_min - s.pods) * coalesce(
            (select max(w.pod_devices) from waiting w where w.job_id = s.job_id), 1
        ) as missing_devices
    from stretch s
    join (
        select unnest(range($since_us // 3600000000, $until_us // 3600000000)) * 3600000000 as hour_us
    ) h on h.hour_us < s.end_us and h.hour_us + 3600000000 > s.start_us
    join (
        select chain, job_id, min(start_us) as start_us, max(end_us) as end_us
        from job_chain
        where not exempt and scheduler = 'kubernetes'
        group by chain, job_id
    ) c on c.job_id = s.job_id and c.start_us < s.end_us and c.end_us > s.start_us
    where least(s.end_us, h.hour_us + 3600000000) - s.start_us >= $partial_us_min
),
held_part as (
    select
        p.chain,
        p.hour_us,
        h.run_id,
        h.device_id,
        h.sure,
        greatest(h.start_us, p.part_start_us) as start_us,
        least(h.end_us, p.part_end_us) as end_us
    from hour_part p
    join held h on h.chain = p.chain and h.start_us < p.part_end_us and h.end_us > p.part_start_us
),
-- What each held device did meanwhile. Its buckets of waiting are those of the minutes in which it did not work. A member that
-- waits in a collective keeps its GPU busy: that is `stalled` and `communication`, and hardly any work.
spent as (
    select
        t.chain,
        t.hour_us,
        t.run_id,
        t.device_id,
        sum(m.end_us - m.start_us - m.unobserved_us) as known_us,
        sum(m.working_us) as worked_us,
        sum(case when worked then 0 else m.hoarded_us end) as hoarded_us,
        sum(case when worked then 0 else m.gap_us end) as gap_us,
        sum(case when worked then 0 else m.stalled_us end) as stalled_us,
        sum(case when worked then 0 else m.communication_us end) as communication_us
    from held_part t
    join (
        select
            *,
            compute_us + memory_roof_us + below_roof_us as working_us,
            working_us > $work_max * (end_us - start_us - unobserved_us) as worked
        from device_minute
    ) m
        on m.cluster = $cluster and m.hour_us = t.hour_us and m.device_id = t.device_id
        and m.start_us >= t.start_us and m.end_us <= t.end_us
    where t.sure and m.hour_us >= $from_us and m.hour_us < $until_us
    group by t.chain, t.hour_us, t.run_id, t.device_id
),
-- Members that work do not wait for the others: the job is elastic, or its members are independent of each other.
at_work as (
    select chain, hour_us
    from spent
    group by chain, hour_us
    having sum(worked_us) > $work_max * sum(known_us)
),
waiting_part as (
    select *
    from hour_part
    where (chain, hour_us) not in (select (chain, hour_us) from at_work)
),
place as (
    select
        t.chain,
        t.hour_us,
        mode(concat_ws(chr(31), d.pool, d.model)) as pool,
        mode(coalesce(d.profile, '')) as profile
    from held_part t
    join device d on d.device_id = t.device_id and d.cluster = $cluster
    group by t.chain, t.hour_us
),
-- Two gangs on one kind of device of one pool that were partial together: each could start with what the other holds.
together as (
    select
        a.chain,
        a.hour_us,
        b.job_id as other,
        l.pool,
        l.profile,
        least(a.part_end_us, b.part_end_us) - 1 as at_us,
        greatest(a.missing_devices - b.devices, b.missing_devices - a.devices) as free_min,
        least(a.missing_devices, b.missing_devices) as free_below
    from waiting_part a
    join place l on l.chain = a.chain and l.hour_us = a.hour_us
    join waiting_part b
        on b.hour_us = a.hour_us and b.chain <> a.chain
        and least(a.part_end_us, b.part_end_us) > greatest(a.part_start_us, b.part_start_us)
        and least(a.part_end_us, b.part_end_us) - greatest(a.start_us, b.start_us) >= $partial_us_min
    join place m on m.chain = b.chain and m.hour_us = b.hour_us and m.pool = l.pool and m.profile = l.profile
),
free as (
    select t.pool, t.profile, t.at_us, count(distinct s.device_id) as devices
    from (select distinct pool, profile, at_us from together) t
    join device d
        on d.cluster = $cluster and concat_ws(chr(31), d.pool, d.model) = t.pool and coalesce(d.profile, '') = t.profile
        and d.kind is null
    join segment s
        on s.cluster = $cluster and s.device_id = d.device_id and s.run_id is null and s.free_bucket = 'schedulable'
        and s.start_us <= t.at_us and s.end_us > t.at_us
    group by t.pool, t.profile, t.at_us
),
-- Among gangs that wait for each other in a ring there always are two that wait for one another: who holds the most of
-- the ring would free the one that would free it.
deadlock as (
    select t.chain, t.hour_us, string_agg(distinct t.other, ', ' order by t.other) as others, count(distinct t.other) as count
    from together t
    left join free f using (pool, profile, at_us)
    where coalesce(f.devices, 0) >= t.free_min and coalesce(f.devices, 0) < t.free_below
    group by t.chain, t.hour_us
),
-- Nobody measures these devices, but a gang that has not all members it needs does not run.
unmeasured as (
    select t.chain, t.hour_us, t.run_id, t.device_id, sum(t.end_us - t.start_us) as us
    from held_part t
    join device d on d.device_id = t.device_id and d.cluster = $cluster
    where not d.measured and t.hour_us >= $from_us and t.hour_us < $until_us
    group by t.chain, t.hour_us, t.run_id, t.device_id
),
wanted as (
    select
        chain,
        hour_us,
        list({'device_id': device_id, 'run_id': run_id, 'hour_us': hour_us, 'bucket': bucket, 'us': us::bigint}) as claims
    from (
        select chain, hour_us, run_id, device_id, unnest([
            {'bucket': 'hoarded', 'us': hoarded_us},
            {'bucket': 'gap', 'us': gap_us},
            {'bucket': 'stalled', 'us': stalled_us},
            {'bucket': 'communication', 'us': communication_us}
        ], recursive := true)
        from spent
        union all
        select chain, hour_us, run_id, device_id, 'unobserved', us from unmeasured
    )
    where us > 0
    group by chain, hour_us
),
held_device as (
    select
        t.chain,
        t.hour_us,
        list(distinct t.device_id) filter (where t.sure or not d.measured) as device_ids,
        count(distinct t.device_id) as devices
    from held_part t
    join device d on d.device_id = t.device_id and d.cluster = $cluster
    group by t.chain, t.hour_us
)
select
    p.chain,
    min(p.part_start_us) as start_us,
    max(p.part_end_us) as end_us,
    case when any_value(d.others) is null then 'high' else 'critical' end as severity,
    any_value(h.device_ids) as device_ids,
    any_value(w.claims) as claims,
    map {
        'running_pods': arg_max(p.pods, (p.part_end_us, p.pods))::double,
        'pods_min': max(p.pods_min)::double,
        'held_devices': coalesce(any_value(h.devices), max(p.devices))::double,
        'missing_devices': max(p.missing_devices)::double,
        'partial_minutes': sum(p.part_end_us - p.part_start_us) / 60e6,
        'longest_minutes': max(p.part_end_us - p.start_us) / 60e6,
        'deadlocked_gangs': coalesce(any_value(d.count) + 1, 0)::double
    } as numbers,
    map {'deadlock_with': coalesce(any_value(d.others), '')} as words
from waiting_part p
left join held_device h using (chain, hour_us)
left join wanted w using (chain, hour_us)
left join deadlock d using (chain, hour_us)
group by p.chain, p.hour_us
order by start_us, p.chain;
