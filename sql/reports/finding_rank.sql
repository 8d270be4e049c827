-- A row is a finding that is asked for, with the state its owner gave it, and the two numbers by which it is ranked.
-- finding_word has what SQL cannot know: the owner's state, a severity that its rule says, and a summary that was sought.
-- Money is near, and rounded, so that a rank is the same every time.
with told as (
    select
        f.key,
        f.detector,
        f.cluster,
        f.job_id,
        f.started_us,
        f.last_seen_us,
        f.device_ids,
        f.wasted_units::double / f.wasted_den / 1e6 as wasted_s,
        case when f.state = 'open' then coalesce(w.state, f.state) else f.state end as state,
        w.severity as said_severity,
        coalesce(w.found, false) as found,
        r.user_name,
        r.name,
        coalesce(t.team, '__unallocated__') as team
    from finding f
    left join finding_word w using (key)
    left join run r on r.run_id = f.run_id and r.cluster = f.cluster
    left join run_team t on t.run_id = f.run_id and t.cluster = f.cluster
    where (not $open_only or f.state = 'open')
        and ($keys::varchar[] is null or list_contains($keys, f.key))
        and ($detectors::varchar[] is null or list_contains($detectors, f.detector))
        and ($cluster is null or f.cluster = $cluster)
        and ($job is null or f.job_id = $job)
        and ($pool is null or list_has_any(f.device_ids, (select list(device_id) from device where pool = $pool)))
        and ($teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__')))
        and ($start_us is null or f.ended_us is null or f.ended_us > $start_us)
        and ($end_us is null or f.started_us < $end_us)
),
picked as (
    select *
    from told
    where $states::varchar[] is null or list_contains($states, state)
),
spot as (
    select key, cluster, started_us, last_seen_us, unnest(device_ids) as device_id
    from picked
    where $by_cost
),
-- Most findings have one price all along: it is their mean.
spot_price as (
    select
        s.key,
        min(p.usd_per_gpu_hour::double) as low,
        max(p.usd_per_gpu_hour::double) as high,
        count(*) filter (where p.usd_per_gpu_hour is null) as lacking,
        count(distinct p.currency) as currencies
    from spot s
    join device_price p
        on p.device_id = s.device_id and p.cluster = s.cluster
        and p.start_us < s.last_seen_us and p.end_us > s.started_us
    group by s.key
),
mixed as (
    select *
    from spot
    where key in (select key from spot_price where low <> high or lacking > 0)
),
-- The others are weighed: by device, share and time, as reports/finding_price.sql has it.
weighed as (
    select
        m.key,
        p.usd_per_gpu_hour::double as price,
        p.currency,
        (least(s.end_us, p.end_us, m.last_seen_us) - greatest(s.start_us, p.start_us, m.started_us))::double
        * s.share_num / s.share_den as weight
    from mixed m
    join segment s
        on s.device_id = m.device_id and s.cluster = m.cluster and s.run_id is not null
        and s.start_us < m.last_seen_us and s.end_us > m.started_us
    join device_price p
        on p.device_id = s.device_id and p.cluster = s.cluster and p.profile is not distinct from s.profile
        and p.start_us < least(s.end_us, m.last_seen_us) and p.end_us > greatest(s.start_us, m.started_us)
),
mean_price as (
    select key, low as price
    from spot_price
    where low = high and lacking = 0 and currencies = 1
    union all
    select
        key,
        case when count(price) = count(*) and count(distinct currency) = 1 then sum(price * weight) / sum(weight) end
    from weighed
    group by key
),
costed as (
    select
        p.*,
        p.wasted_s / 3600 * m.price as cost,
        round(cost * 86400e6 / greatest(p.last_seen_us - p.started_us, $elapsed_us_min), 6) as usd_a_day,
        coalesce(
            p.said_severity,
            case
                when usd_a_day is null then $unpriced_severity
                else len(list_filter($severity_limits::double[], lambda x: x <= usd_a_day))
            end
        ) as severity
    from picked p
    left join mean_price m using (key)
),
sought as (
    select *
    from costed
    where ($severities::integer[] is null or list_contains($severities, severity))
        and (
            $q is null
            or found
            or list_contains($titled, detector)
            or contains(lower(concat_ws(chr(31), key, job_id, name, user_name, team)), $q)
            or coalesce(
                list_has_any(device_ids, (select list(device_id) from device where contains(lower(node), $q))), false
            )
        )
),
ranked as (
    select
        key,
        state,
        case $sort when 'started' then started_us when 'severity' then severity else round(coalesce(cost, -1), 6) end::double
            as first_rank,
        round(case when $sort = 'severity' then coalesce(cost, -1) else wasted_s end, 6) as second_rank
    from sought
)
select key, state, first_rank, second_rank
from ranked
where $after_key is null
    or (first_rank, second_rank) < ($after_first::double, $after_second::double)
    or ((first_rank, second_rank) = ($after_first::double, $after_second::double) and key > $after_key)
order by first_rank desc, second_rank desc, key
limit $limit;
