-- A row is a requested finding with the state set by its owner, and the two numbers it is ranked by. finding_word has what
-- SQL cannot compute: the owner's state, the severity given by the rule, and whether the summary matched the search.
-- Costs are approximate and rounded, so that a rank is the same every time.
with requested as (
    select
        f.key,
        f.detector,
        f.cluster,
        f.job_id,
        f.subject_id,
        f.subject_name,
        f.nodes,
        f.started_us,
        f.last_seen_us,
        f.device_ids,
        f.bucket,
        f.confidence,
        -- Savings and lost work are in the evidence of findings that claim no time.
        case when f.bucket is null then f.evidence end as evidence,
        -- Missing measurements come after all that is known.
        case when f.bucket = 'unobserved' then -1 else f.wasted_units::double / f.wasted_den / 1e6 end as wasted_s,
        -- Lost work claims no time: it has its own cost, or its own time where it has no price.
        case when f.bucket is null and f.wasted_units::double = 0 then try_cast(f.evidence ->> 'lost_cost' as double) end
            as lost_cost,
        case
            when f.bucket is null and f.wasted_units::double = 0
                then coalesce(try_cast(f.evidence ->> 'lost_gpu_hours' as double) * 3600, 0)
            else 0
        end as lost_s,
        case when f.state = 'open' then coalesce(w.state, f.state) else f.state end as state,
        coalesce(list_position(['info', 'low', 'medium', 'high', 'critical'], f.severity) - 1, w.severity) as fixed_severity,
        coalesce(w.found, false) as found,
        r.user_name,
        r.name,
        coalesce(f.team, t.team, case when f.run_id is null then '__platform__' else '__unallocated__' end) as team
    from finding f
    left join finding_word w using (key)
    left join run r on r.run_id = f.run_id and r.cluster = f.cluster
    left join run_team t on t.run_id = f.run_id and t.cluster = f.cluster
    where (not $open_only or f.state = 'open')
        and ($keys::varchar[] is null or list_contains($keys, f.key))
        and (len($detectors::varchar[]) = 0 or list_contains($detectors::varchar[], f.detector))
        and ($cluster is null or f.cluster = $cluster)
        and ($job is null or f.job_id = $job)
        and ($pool is null or list_has_any(f.device_ids, (select list(device_id) from device where pool = $pool)))
        and ($teams::varchar[] is null or list_contains(
                $teams, coalesce(f.team, t.team, case when f.run_id is null then '__platform__' else '__unallocated__' end)
            ))
        and (f.ended_us is null or f.ended_us > $start_us)
        and f.started_us < $end_us
),
picked as (
    select *
    from requested
    where len($states::varchar[]) = 0 or list_contains($states::varchar[], state)
),
-- The approximate cost of a finding, for ranking only; NULL where some of it has no price, or two currencies.
amount as (
    select
        key,
        case
            when count(*) = count(usd_per_gpu_hour) and count(distinct currency) = 1
                then sum(units::double / den::double * usd_per_gpu_hour::double) / 3600e6
        end as cost,
        any_value(currency) as currency
    from finding_amount
    where $by_cost and key in (select key from picked)
    group by key
),
costed as (
    select
        p.*,
        case when p.wasted_s <= 0 then 0 else a.cost end as cost,
        a.currency,
        round(cost * 86400e6 / greatest(p.last_seen_us - p.started_us, $elapsed_us_min), 6) as usd_a_day,
        coalesce(
            p.fixed_severity,
            case
                when usd_a_day is null then $unpriced_severity
                else len(list_filter($severity_limits::double[], lambda x: x <= usd_a_day))
            end
        ) as severity
    from picked p
    left join amount a using (key)
),
sought as (
    select *
    from costed
    where (len($severities::integer[]) = 0 or list_contains($severities::integer[], severity))
        and (
            $q is null
            or found
            or list_contains($titled, detector)
            or contains(lower(concat_ws(chr(31), key, subject_id, subject_name, name, user_name, team)), $q)
            or contains(lower(array_to_string(nodes, chr(31))), $q)
            or coalesce(
                list_has_any(device_ids, (select list(device_id) from device where contains(lower(node), $q))), false
            )
        )
),
ranked as (
    select
        key,
        detector,
        cluster,
        team,
        state,
        severity,
        confidence,
        bucket,
        evidence,
        wasted_s,
        cost,
        currency,
        started_us,
        last_seen_us,
        coalesce(len(device_ids), 0) as devices,
        case $sort when 'started' then started_us when 'severity' then severity else round(coalesce(lost_cost, cost, 0), 6) end::double
            as first_rank,
        round(case when $sort = 'severity' and wasted_s >= 0 then coalesce(lost_cost, cost, 0) else wasted_s + lost_s end, 6) as second_rank
    from sought
)
select *
from ranked
where $after_key is null
    or (first_rank, second_rank) < ($after_first::double, $after_second::double)
    or ((first_rank, second_rank) = ($after_first::double, $after_second::double) and key > $after_key)
order by first_rank desc, second_rank desc, key
limit $limit;
