-- A row is a chain of runs in which devices were held and idle.
-- The idle sample and the run of idle samples are the ledger's own (sql/ledger/piece.sql, idle.sql): waste stays within
-- bucket hoarded. A busy sample, a missing sample or another owner ends a run of idle samples.
with linked as (
    select
        *,
        start_us is distinct from lag(end_us) over (partition by device_id order by start_us) as begins
    from idle_span
    where cluster = $cluster
        -- Idle time before and after the devices were held does not count.
        and end_us > (select min(start_us) from held) and start_us < (select max(end_us) from held)
),
numbered as (
    select *, count(case when begins then 1 end) over (partition by device_id order by start_us) as number
    from linked
),
idle_run as (
    select device_id, min(start_us) as start_us, max(end_us) as end_us
    from numbered
    group by device_id, number
),
-- Where no source says which devices of a node a job holds, what all of them idle, held and free, is idle for each of its jobs.
unsure_node as (
    select distinct d.node
    from held h
    join device d on d.cluster = $cluster and d.device_id = h.device_id
    where not h.sure and d.node is not null
),
leaf as (
    select device_id, node, count(*) over (partition by node) as devices
    from device d
    where cluster = $cluster and node in (select node from unsure_node)
        and not exists (select 1 from device s where s.parent_id = d.device_id and s.device_id <> d.device_id)
),
node_change as (
    select node, devices, at_us, sum(change) as change
    from (
        select l.node, l.devices, i.start_us as at_us, 1 as change
        from idle_run i
        join leaf l using (device_id)
        union all
        select l.node, l.devices, i.end_us, -1
        from idle_run i
        join leaf l using (device_id)
    )
    group by node, devices, at_us
    having sum(change) <> 0
),
node_idle as (
    select node, at_us as start_us, lead(at_us) over (partition by node order by at_us) as end_us
    from node_change
    qualify sum(change) over (partition by node order by at_us) = devices
),
-- How much of a job lies on a node may be an estimate too.
spread_run as (
    select run_id
    from job_chain
    where (labels ->> '$.spread') = 'estimated' or (labels ->> '$.placement') = 'estimated'
),
proven as (
    select device_id, start_us, end_us, true as sure from idle_run
    union all
    select i.device_id, greatest(i.start_us, n.start_us), least(i.end_us, n.end_us), false
    from idle_run i
    join leaf l using (device_id)
    join node_idle n on n.node = l.node and n.start_us < i.end_us and n.end_us > i.start_us
),
owned as materialized (
    select
        h.sure,
        h.chain,
        h.run_id,
        h.device_id,
        h.share_num,
        h.share_den,
        h.run_start_us,
        h.run_end_us,
        -- What lies before the end of an exemption stays exempt.
        greatest(i.start_us, h.start_us, coalesce(c.exempt_until_us, 0)) as start_us,
        least(i.end_us, h.end_us) as end_us,
        d.last_us as measured_until_us
    from proven i
    join held h on h.device_id = i.device_id and i.start_us < h.end_us and i.end_us > h.start_us and h.sure = i.sure
    join device d on d.device_id = i.device_id
    join job_chain c on c.run_id = h.run_id
    where (h.sure or h.run_id not in (select run_id from spread_run)) and not c.exempt and least(i.end_us, h.end_us) > coalesce(c.exempt_until_us, 0)
),
-- Results of other rules for the same job: a gang that waits for its other members, and pauses for checkpoints.
other_result as (
    select
        c.chain,
        v.detector,
        v.start_us,
        v.end_us,
        v.numbers['period_minutes'] * 60e6 as period_us
    from verdict v
    join (select distinct chain, job_id, chain_start_us from job_chain) c
        on c.job_id = v.subject_id and c.chain_start_us = v.cause_us
    where v.cluster = $cluster and v.detector in ('gang-partial', 'checkpoint-stall') and v.subject_kind = 'job'
),
waited as (
    select o.device_id, o.start_us, o.run_id, sum(least(s.end_us, o.end_us) - greatest(s.start_us, o.start_us)) as waited_us
    from owned o
    join other_result s on s.chain = o.chain and s.start_us < o.end_us and s.end_us > o.start_us
    where s.detector = 'gang-partial'
    group by o.device_id, o.start_us, o.run_id
),
-- A regular pause is far shorter than its period. A pattern is recognised from the day before.
paused as (
    select o.device_id, o.start_us, o.run_id
    from owned o
    join other_result s on s.chain = o.chain and s.start_us - 86400000000 <= o.start_us and s.end_us > o.start_us
    where s.detector = 'checkpoint-stall' and o.end_us - o.start_us < s.period_us / 2
),
-- A GPU that reports a hardware fault (codes of degraded-gpu) is broken, not hoarded.
broken as (
    select o.device_id, o.start_us, o.run_id
    from owned o
    join device_hour h
        on h.device_id = o.device_id and h.hour_us < o.end_us and h.hour_us + 3600000000 > o.start_us
    where h.cluster = $cluster
        and (
            list_has_any(h.xids, [48, 64, 74, 79, 94, 95, 119, 120, 140, 149]::bigint[])
            or h.row_remap_pending > 0 or h.row_remap_failed > 0 or h.ecc_dbe_count > 0 or h.memory_unrepairable > 0
        )
),
-- Slurm keeps the GPUs of a job that it suspends. Of ended and resumed jobs the total is known, not each time: so much of each idle
-- time may be the scheduler's. A job that was suspended when it was last seen has been for an unknown time.
stopped as (
    select
        r.run_id,
        max(c.suspended_us) as suspended_us,
        max(greatest(c.start_us, c.evidence_us)) filter (where c.end_us is null) as seen_us,
        -- Of records of the same time the one that says so counts: they come in any order.
        arg_max(
            c.state = 'SUSPENDED', (c.end_us is not null, greatest(c.start_us, c.evidence_us), c.state = 'SUSPENDED')
        ) as still
    from run r
    join claim c
        on c.cluster = $cluster and c.scheduler = 'slurm' and c.job_id = r.job_id and c.run_key = r.run_key
    where r.cluster = $cluster and r.scheduler = 'slurm' and r.run_id in (select run_id from owned)
    group by r.run_id
    having max(c.suspended_us) > 0 or still
),
-- What is idle in the warm-up is not held against a run: compilers, downloads and collectives start there.
long_enough as materialized (
    select o.* replace (o.start_us + coalesce(s.suspended_us, 0) as start_us), o.start_us as idle_from_us
    from owned o
    left join waited w using (device_id, start_us, run_id)
    left join stopped s using (run_id)
    where o.end_us - greatest(o.start_us, o.run_start_us + $warm_up_us) - coalesce(w.waited_us, 0) - coalesce(s.suspended_us, 0)
        >= $idle_us_min
        and not coalesce(s.still and o.end_us >= least(s.seen_us, o.measured_until_us) - $still_us, false)
        and (o.device_id, o.start_us, o.run_id) not in (select (device_id, start_us, run_id) from paused)
        and (o.device_id, o.start_us, o.run_id) not in (select (device_id, start_us, run_id) from broken)
),
-- Why no container runs of a pod of the chain, by the pod's last record.
blocked as (
    select chain, min(state) as state
    from (
        select
            c.chain,
            arg_max(k.state, (coalesce(k.evidence_us, k.end_us, k.start_us), k.end_us is not null)) as state,
            arg_max(k.labels, (coalesce(k.evidence_us, k.end_us, k.start_us), k.end_us is not null)) as labels
        from claim k
        join run r on r.cluster = $cluster and r.scheduler = k.scheduler and r.job_id = k.job_id and r.run_key = k.run_key
        join (select distinct chain, run_id from long_enough) c using (run_id)
        where k.cluster = $cluster and k.scheduler = 'kubernetes'
        group by c.chain, k.job_id, k.run_key, k.pod_uid
    )
    where never_started(state) or (state = 'CrashLoopBackOff' and failed_again(labels))
    group by chain
),
-- Devices that it held meanwhile: what a later run of the job got is not beside the idle ones.
chain_size as (
    select h.chain, count(distinct h.device_id) as devices
    from held h
    join (select chain, min(start_us) as from_us, max(end_us) as to_us from long_enough group by chain) l
        on l.chain = h.chain and h.start_us < l.to_us and h.end_us > l.from_us
    group by h.chain
),
-- Idle time after the first minute of each run, by the hour.
idle_hour as (
    select
        *,
        unnest(range((start_us + $grace_us) // 3600000000, (end_us + 3599999999) // 3600000000)) * 3600000000 as hour_us
    from long_enough
),
claimed as (
    select
        chain,
        list({
            'device_id': device_id,
            'run_id': run_id,
            'hour_us': hour_us,
            'bucket': 'hoarded',
            'us': greatest(least(end_us, hour_us + 3600000000) - greatest(start_us + $grace_us, hour_us), 0)
        }) as claims
    from idle_hour
    group by chain
)
select
    l.chain,
    min(l.start_us) as start_us,
    max(l.end_us) as end_us,
    -- Still idle when the device was last measured, and the run had not ended.
    bool_or(l.end_us >= least(l.run_end_us, l.measured_until_us) - $still_us and not c.ended) as still,
    max(case when w.signalled then 1.0 else 0.4 end)
        * case
            when max(l.end_us - l.start_us) >= $reclaim_us then 0.95
            when max(l.end_us - l.start_us) >= $warn_us then 0.85
            else 0.7
        end as confidence,
    list(distinct l.device_id) as device_ids,
    map {
        'idle_devices': count(distinct l.device_id)::double,
        'devices': any_value(s.devices)::double,
        'idle_runs': count(*)::double,
        'longest_idle_minutes': round(max(l.end_us - l.start_us) / 60e6, 1),
        'idle_device_hours': round(sum(l.end_us - l.start_us) / 3600e6, 3)
    } as numbers,
    map_concat(
        case when not bool_and(l.sure) then map {'placement': 'node'} end,
        case when bool_or(is_session(r.labels, r.queue, r.name)) then map {'use': 'interactive'} end,
        case when any_value(b.state) is not null then map {'not_running': any_value(b.state)} end,
        map {
        'shape': case
            when count(distinct l.device_id) < any_value(s.devices) then 'some of its devices'
            when min(l.idle_from_us - l.run_start_us) <= $warm_up_us then 'from its start'
            else 'after activity'
        end,
        'tier': case
            when max(l.end_us - l.start_us) >= $reclaim_us then 'reclaim'
            when max(l.end_us - l.start_us) >= $warn_us then 'warn'
            else 'notify'
        end
        }
    ) as words,
    any_value(q.claims) as claims
from long_enough l
join job_chain c using (run_id)
join run r on r.run_id = l.run_id and r.cluster = $cluster
join chain_size s on s.chain = l.chain
join claimed q on q.chain = l.chain
left join blocked b on b.chain = l.chain
left join (
    select device_id, bool_or(gr_engine_ratio is not null and (sm_active_ratio is not null or power_watts is not null)) as signalled
    from device_window
    where cluster = $cluster and hour_us >= $since_us - 3600000000 and hour_us < $until_us
        and device_id in (select device_id from long_enough)
    group by device_id
) w on w.device_id = l.device_id
group by l.chain
order by start_us, l.chain;
