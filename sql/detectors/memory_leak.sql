-- A row is an hour of a device: memory in use without a job, or memory of a job that only grows.
-- Candidates come from the hours; their raw samples show when, and that nothing ran there.
with leaf as (
    select d.device_id, d.node, d.gpu, d.gi, d.model, d.profile
    from device d
    where d.cluster = $cluster and d.measured
        and not exists (select 1 from device s where s.parent_id = d.device_id and s.device_id <> d.device_id)
),
shared_node as (
    select distinct node from node where cluster = $cluster and sharing in ('time-slicing', 'mps')
),
-- Without a known scheduler, free has no meaning.
known_node as (
    select node from node where cluster = $cluster
    union
    select d.node
    from run r
    join segment s on s.run_id = r.run_id and s.cluster = r.cluster
    join device d on d.device_id = s.device_id
    where r.cluster = $cluster and r.end_us > $since_us - 86400000000
),
-- A device there is held, but no source names it.
doubtful_node as (
    select d.node, h.start_us, h.end_us
    from held h
    join device d using (device_id)
    where not h.sure
),
baseline as (
    select
        l.model,
        l.profile,
        least(quantile_disc(h.fb_used_min_bytes, 0.1), $baseline_mib_max * 1048576) + $leak_mib_min * 1048576 as fb_bytes_max
    from device_hour h
    join leaf l using (device_id)
    where h.cluster = $cluster and h.hour_us >= $from_us and h.hour_us < $until_us and h.fb_used_min_bytes is not null
    group by l.model, l.profile
),
free_segment as (
    select
        s.device_id,
        s.start_us,
        s.end_us,
        s.start_us is distinct from lag(s.end_us) over (partition by s.device_id order by s.start_us) as begins
    from segment s
    join leaf l using (device_id)
    where s.cluster = $cluster and s.run_id is null and s.free_bucket in ('schedulable', 'stranded')
        and s.end_us > $since_us - 3600000000 and s.start_us < $until_us + 3600000000
        and l.node in (select node from known_node) and l.node not in (select node from shared_node)
),
free_numbered as (
    select *, count(case when begins then 1 end) over (partition by device_id order by start_us) as number
    from free_segment
),
free_span as (
    select device_id, min(start_us) as start_us, max(end_us) as end_us
    from free_numbered
    group by device_id, number
    having max(end_us) - min(start_us) >= $orphan_us_min
),
suspect as (
    select distinct f.device_id, f.start_us, f.end_us, b.fb_bytes_max
    from free_span f
    join leaf l using (device_id)
    join baseline b on b.model is not distinct from l.model and b.profile is not distinct from l.profile
    join device_hour h
        on h.device_id = f.device_id and h.hour_us < f.end_us and h.hour_us + 3600000000 > f.start_us
    where h.cluster = $cluster and h.hour_us >= $since_us - 3600000000 and h.hour_us < $until_us + 3600000000
        and (
            h.fb_used_min_bytes > b.fb_bytes_max
            or (h.fb_used_last_bytes > b.fb_bytes_max and f.end_us >= h.hour_us + 3600000000)
            or (h.fb_used_last_bytes > b.fb_bytes_max and f.end_us >= $known_until_us)
        )
        and not exists (
            select 1 from doubtful_node n where n.node = l.node and n.start_us < f.end_us and n.end_us > f.start_us
        )
),
reading as (
    select
        s.device_id,
        s.start_us as span_us,
        s.end_us as span_end_us,
        p.observed_us,
        max(p.fb_used_bytes) as fb_used_bytes,
        max(p.fb_used_bytes) > s.fb_bytes_max as above,
        max(coalesce(p.gr_engine_ratio, p.gpu_util_ratio)) as gr_engine_ratio
    from sample p
    join suspect s
        on s.device_id = p.device_id and p.observed_us >= s.start_us + $settle_us and p.observed_us < s.end_us
    where p.observed_us >= $since_us - 3600000000 and p.observed_us < $until_us + 3600000000
        and p.device_id in (select device_id from suspect)
        and p.fb_used_bytes is not null
    group by s.device_id, s.start_us, s.end_us, s.fb_bytes_max, p.observed_us
),
turned as (
    select
        *,
        above is distinct from lag(above) over (partition by device_id, span_us order by observed_us) as turns
    from reading
),
stretched as (
    select *, count(case when turns then 1 end) over (partition by device_id, span_us order by observed_us) as number
    from turned
),
orphan as (
    select
        device_id,
        span_us,
        any_value(span_end_us) as span_end_us,
        min(observed_us) as start_us,
        max(observed_us) as end_us,
        max(fb_used_bytes) as fb_used_bytes
    from stretched
    where above
    group by device_id, span_us, number
    -- A process that no source names works there: not a leak.
    having max(observed_us) - min(observed_us) >= $orphan_us_min and max(gr_engine_ratio) < $busy_ratio_max
),
last_holder as (
    select o.device_id, o.start_us, arg_max(h.run_id, (h.end_us, h.run_id)) as run_id
    from orphan o
    join held h on h.device_id = o.device_id and h.end_us <= o.span_us and h.end_us > o.span_us - $orphan_us_min
    where o.start_us - o.span_us <= $orphan_us_min + $settle_us
    group by o.device_id, o.start_us
),
request as (
    select job_id, min(submit_us) as from_us, max(coalesce(start_us, evidence_us)) as to_us
    from pending
    where cluster = $cluster and not coalesce(contains(profile, '/'), false)
    group by job_id
),
waiting as (
    select o.device_id, o.start_us, count(*) as requests
    from orphan o
    join request q
        on least(q.to_us, o.end_us) - greatest(q.from_us, o.start_us) >= $orphan_us_min
    group by o.device_id, o.start_us
),
orphan_hour as (
    select *, unnest(range(start_us // 3600000000, end_us // 3600000000 + 1)) * 3600000000 as hour_us
    from orphan
),
orphan_row as (
    select
        case when l.gi >= 0 then 'slice' else 'gpu' end as subject_kind,
        case when l.gi >= 0 then l.gpu || '/GI-' || l.gi else l.gpu end as subject_id,
        null::varchar as subject_name,
        r.run_id,
        greatest(o.start_us, o.hour_us) as start_us,
        least(o.end_us, o.hour_us + 3600000000) as end_us,
        o.end_us >= least(o.span_end_us, $known_until_us) - $still_us
            and o.hour_us + 3600000000 >= o.end_us and o.span_end_us >= $known_until_us - $still_us as still,
        0.8::double as confidence,
        case when w.requests > 0 then 'high' else 'medium' end as severity,
        [o.device_id] as device_ids,
        map {
            'fb_used_gib': o.fb_used_bytes / 1073741824.0,
            'orphan_hours': (least(o.end_us, o.hour_us + 3600000000) - greatest(o.start_us, o.hour_us)) / 3600e6,
            'requests_waiting': coalesce(w.requests, 0)::double
        } as numbers,
        map {'shape': 'orphan', 'last_job': j.job_id} as words,
        [{
            'device_id': o.device_id,
            'run_id': null::bigint,
            'hour_us': o.hour_us,
            'bucket': 'out_of_service',
            'us': least(o.end_us, o.hour_us + 3600000000) - greatest(o.start_us, o.hour_us)
        }] as claims
    from orphan_hour o
    join leaf l using (device_id)
    left join last_holder r on r.device_id = o.device_id and r.start_us = o.start_us
    left join run j on j.run_id = r.run_id and j.cluster = $cluster
    left join waiting w on w.device_id = o.device_id and w.start_us = o.start_us
    where o.hour_us >= $since_us and o.hour_us < $until_us
        and least(o.end_us, o.hour_us + 3600000000) > greatest(o.start_us, o.hour_us)
),
-- Growth: six hours of a device in one run whose greatest memory of each hour is above that of the hour before.
shared_device as (
    select distinct device_id
    from (
        select device_id, start_us from held group by device_id, start_us having count(distinct run_id) > 1
    )
),
hourly as (
    select
        *,
        lag(fb_used_max_bytes) over steps as before_bytes,
        lag(hour_us) over steps as before_us
    from workload_hour
    where cluster = $cluster and hour_us >= $from_us and hour_us < $until_us and fb_used_max_bytes is not null
    window steps as (partition by device_id, run_id order by hour_us)
),
rising as (
    select
        *,
        count(case when fb_used_max_bytes > before_bytes and before_us = hour_us - 3600000000 then 1 end) over (
            partition by device_id, run_id order by hour_us
            range between $growth_us - 7200000000 preceding and current row
        ) as risen,
        min(fb_used_max_bytes) over (
            partition by device_id, run_id order by hour_us
            range between $growth_us - 3600000000 preceding and current row
        ) as least_bytes
    from hourly
),
growing as (
    select device_id, run_id, hour_us
    from rising
    where hour_us >= $since_us
        and risen = $growth_us // 3600000000 - 1
        and fb_used_max_bytes >= least_bytes * (1 + $growth_ratio_per_hour_min * ($growth_us // 3600000000 - 1))
        and device_id not in (select device_id from shared_device)
        and device_id not in (select device_id from leaf where node in (select node from shared_node))
),
point as (
    select
        h.chain,
        g.run_id,
        g.device_id,
        g.hour_us,
        w.start_us,
        (w.start_us - g.hour_us) / 3600e6 as hour,
        w.fb_used_bytes::double as fb_used_bytes,
        coalesce(w.sm_active_ratio, w.gr_engine_ratio, w.gpu_util_ratio) as active_ratio,
        w.start_us >= g.hour_us + 3600000000 - $growth_us // 2 as late
    from growing g
    join held h on h.device_id = g.device_id and h.run_id = g.run_id and h.sure
    join job_chain c on c.run_id = g.run_id and not c.exempt
    join device_window w
        on w.device_id = g.device_id and w.segment_start_us = h.start_us
        and w.start_us >= g.hour_us + 3600000000 - $growth_us and w.start_us < g.hour_us + 3600000000
        and w.start_us >= h.run_start_us + $warm_up_us
    where w.cluster = $cluster and w.hour_us >= $from_us and w.hour_us < $until_us
        and w.device_id in (select device_id from growing)
        and w.fb_used_bytes is not null
),
fitted as (
    select
        chain,
        run_id,
        device_id,
        hour_us,
        count(*) as points,
        max(start_us) + 300000000 as end_us,
        regr_r2(fb_used_bytes, hour) as r2,
        arg_min(fb_used_bytes, start_us) as first_bytes,
        arg_max(fb_used_bytes, start_us) as last_bytes,
        exact_mean(case when not late then active_ratio end) as active_before,
        exact_mean(case when late then active_ratio end) as active_after
    from point
    group by chain, run_id, device_id, hour_us
),
-- Theil-Sen: the median of the slopes of all pairs.
slope as (
    select a.device_id, a.run_id, a.hour_us, median((b.fb_used_bytes - a.fb_used_bytes) / (b.hour - a.hour)) as bytes_per_hour
    from point a
    join point b on b.device_id = a.device_id and b.run_id = a.run_id and b.hour_us = a.hour_us and b.hour > a.hour
    group by a.device_id, a.run_id, a.hour_us
),
growth_row as (
    select
        'job' as subject_kind,
        c.job_id as subject_id,
        c.name as subject_name,
        f.run_id,
        f.hour_us as start_us,
        least(f.end_us, f.hour_us + 3600000000) as end_us,
        not c.ended and f.end_us >= $known_until_us - $still_us as still,
        0.7::double as confidence,
        'medium' as severity,
        [f.device_id] as device_ids,
        map {
            'fb_used_gib': f.last_bytes / 1073741824.0,
            'growth_gib_per_hour': s.bytes_per_hour / 1073741824.0,
            'growth_ratio_per_hour': s.bytes_per_hour / f.first_bytes,
            'r2': f.r2,
            'hours_to_full': (t.fb_total_bytes - f.last_bytes) / s.bytes_per_hour
        } as numbers,
        map {'shape': 'growth', 'workload_class': k.workload_class} as words,
        null::struct(device_id bigint, run_id bigint, hour_us bigint, bucket varchar, us bigint)[] as claims
    from fitted f
    join slope s using (device_id, run_id, hour_us)
    join job_chain c on c.run_id = f.run_id
    left join device_hour t on t.cluster = $cluster and t.device_id = f.device_id and t.hour_us = f.hour_us
    left join workload_hour k
        on k.cluster = $cluster and k.device_id = f.device_id and k.run_id = f.run_id and k.hour_us = f.hour_us
    where f.points >= $coverage_min * ($growth_us // 300000000)
        and f.r2 > $r2_min
        and s.bytes_per_hour > $growth_ratio_per_hour_min * f.first_bytes
        -- More work may need more memory.
        and abs(f.active_after - f.active_before) <= $flat_ratio_max * greatest(f.active_before, f.active_after)
)
select * from orphan_row
union all by name
select * from growth_row
order by start_us, subject_kind, subject_id, device_ids;
