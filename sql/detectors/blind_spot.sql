-- A row is a chain of runs that held a device for an hour or more while its measurements were missing, or a cluster, pool
-- or node whose held devices were never measured. It claims no money.
-- Measured is a minute with a reading of activity: a busy GPU without SM_ACTIVE has no bucket but unobserved, and is
-- measured all the same.
with never_measured as (
    -- The widest place without a single measured device: thousands of jobs on it are one cause.
    select
        device_id,
        node,
        profile,
        case
            when not bool_or(measured) over () then 'cluster'
            when not bool_or(measured) over (partition by pool) and pool is not null
                and min(node) over (partition by pool) < max(node) over (partition by pool) then 'pool'
            when node is not null then 'node'
            else 'gpu'
        end as subject_kind,
        case subject_kind when 'cluster' then cluster when 'pool' then pool when 'node' then node else gpu end as subject_id
    from device
    -- Accelerators of other vendors cannot be measured: that is no cause for a finding.
    where cluster = $cluster and kind is null
    qualify not measured
),
dark_hold as (
    select
        n.subject_kind,
        n.subject_id,
        n.device_id,
        n.node,
        n.profile,
        s.run_id,
        -- What lies before the end of an exemption stays exempt.
        greatest(
            s.start_us,
            coalesce(epoch_us(try_cast(r.labels ->> '$."gpuwatch.io/exempt-until"' as timestamp)), 0)
        ) as start_us,
        s.end_us,
        s.share_num,
        s.share_den
    from segment s
    join never_measured n using (device_id)
    join run r on r.run_id = s.run_id and r.cluster = s.cluster
    where s.cluster = $cluster
),
dark_place as (
    select
        null::varchar as chain,
        subject_kind,
        subject_id,
        min(start_us) as start_us,
        max(end_us) as end_us,
        max(end_us) >= least(
            $known_until_us, (select max(s.end_us) from segment s where s.cluster = $cluster)
        ) - $still_us as still,
        1.0 as confidence,
        case when subject_kind in ('node', 'gpu') then list(distinct device_id) else [] end as device_ids,
        list(distinct node order by node) filter (where node is not null) as nodes,
        map {
            'devices': count(distinct device_id)::double,
            'slices': count(distinct case when profile is not null then device_id end)::double,
            'never_measured': count(distinct device_id)::double,
            'node_count': count(distinct node)::double,
            'jobs': count(distinct run_id)::double,
            'unobserved_gpu_hours': round(sum((end_us - start_us)::hugeint * share_num / share_den) / 3600e6, 3)
        } as numbers,
        map {'place': subject_kind} as words
    from dark_hold
    where end_us > start_us
    group by subject_kind, subject_id
    having max(end_us - start_us) >= $blind_us_min
),
candidate as (
    select distinct l.device_id, l.run_id
    from ledger_hour l
    where l.cluster = $cluster and l.run_id in (select run_id from job_chain)
        and l.device_id not in (select device_id from never_measured)
        and l.device_id not in (select device_id from device where cluster = $cluster and kind is not null)
        -- An hour of silence leaves half an hour of it in some clock hour.
        and l.unobserved_us >= $blind_us_min // 2 and l.hour_us >= $since_us - 3600000000 and l.hour_us < $until_us
),
span as (
    -- What lies before the end of an exemption stays exempt.
    select h.chain, h.run_id, h.device_id, greatest(h.start_us, coalesce(j.exempt_until_us, 0)) as start_us, h.end_us, h.start_us as segment_us
    from held h
    join candidate c using (device_id, run_id)
    join job_chain j using (run_id)
    where h.end_us > coalesce(j.exempt_until_us, 0)
),
measured as (
    select s.chain, s.run_id, s.device_id, s.start_us as span_us, m.start_us, m.end_us
    from span s
    join device_minute m
        on m.cluster = $cluster and m.device_id = s.device_id and m.start_us >= s.start_us and m.start_us < s.end_us
    join device_window w
        on w.cluster = $cluster and w.device_id = m.device_id and w.segment_start_us = s.segment_us and w.hour_us = m.hour_us
        and w.start_us = m.start_us // 300000000 * 300000000
    where coalesce(w.gr_engine_ratio, w.gpu_util_ratio, w.sm_active_ratio) is not null
        and m.hour_us >= $since_us - 3600000000 and m.hour_us < $until_us
        and w.hour_us >= $since_us - 3600000000 and w.hour_us < $until_us
    union all
    select chain, run_id, device_id, start_us, start_us, start_us
    from span
    union all
    select chain, run_id, device_id, start_us, end_us, end_us
    from span
),
silence as (
    select
        chain,
        run_id,
        device_id,
        max(end_us) over (
            partition by device_id, run_id, span_us
            order by start_us, end_us
            rows between unbounded preceding and 1 preceding
        ) as start_us,
        start_us as end_us
    from measured
),
blind as (
    select *
    from silence
    where end_us - start_us >= $blind_us_min
),
chain_size as (
    select chain, count(distinct device_id) as devices
    from held
    group by chain
),
dark_chain as (
    select
        b.chain,
        null::varchar as subject_kind,
        null::varchar as subject_id,
        min(b.start_us) as start_us,
        max(b.end_us) as end_us,
        bool_or(b.end_us >= c.end_us - $still_us and not c.ended) as still,
        1.0 as confidence,
        list(distinct b.device_id) as device_ids,
        null::varchar[] as nodes,
        map {
            'blind_devices': count(distinct b.device_id)::double,
            'devices': any_value(s.devices)::double,
            'unobserved_device_hours': round(sum(b.end_us - b.start_us) / 3600e6, 3),
            'longest_hours': round(max(b.end_us - b.start_us) / 3600e6, 3)
        } as numbers,
        null::map(varchar, varchar) as words
    from blind b
    join job_chain c using (run_id)
    join chain_size s on s.chain = b.chain
    where not c.exempt
    group by b.chain
)
select * from dark_place
union all
select * from dark_chain
order by start_us, subject_id, chain;
