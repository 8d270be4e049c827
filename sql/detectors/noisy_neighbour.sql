-- A row is an hour of a job that loses a GPU's time to another one on the same GPU.
-- Only GPUs whose samples of one instant name several owners with separate readings count; MIG slices are isolated.
with shared as (
    select distinct s.device_id, s.hour_us
    from context_span s
    join context c using (context_id)
    where c.cluster = $cluster and s.shared and c.gi < 0
        and s.hour_us >= $from_us and s.hour_us < $until_us
),
owner as (
    select distinct c.context_id, c.device_id, k.chain, k.run_id
    from context c
    join shared d using (device_id)
    join held h on h.device_id = c.device_id
    join job_chain k on k.run_id = h.run_id
    where c.cluster = $cluster and not k.exempt
        and (
            k.job_id = c.job
            or k.job_id = c.namespace || '/' || c.pod
            or exists (
                select 1
                from claim m
                where m.cluster = $cluster and m.job_id = k.job_id and m.scheduler = k.scheduler
                    and m.pod = c.pod and m.namespace is not distinct from c.namespace
            )
        )
),
reading as (
    select
        p.device_id,
        p.observed_us,
        o.chain,
        arg_max(o.run_id, o.run_id) as run_id,
        exact_sum(p.gpu_util_ratio) as used_ratio
    from sample p
    join shared d on d.device_id = p.device_id and d.hour_us = p.observed_us // 3600000000 * 3600000000
    join owner o on o.context_id = p.context_id
    where p.observed_us >= $from_us and p.observed_us < $until_us
        and p.device_id in (select device_id from shared)
        and p.gpu_util_ratio is not null
    group by p.device_id, p.observed_us, o.chain
),
-- If every owner's row repeats the reading of the device, owners cannot be separated.
separate as (
    select device_id, observed_us, exact_sum(used_ratio) as all_ratio
    from reading
    group by device_id, observed_us
    having count(*) > 1 and (count(distinct used_ratio) > 1 or exact_sum(used_ratio) <= 1.05)
),
pair as (
    select
        v.device_id,
        v.chain,
        v.run_id,
        n.chain as other,
        h.hour_us,
        v.observed_us,
        v.used_ratio as victim_ratio,
        n.used_ratio as other_ratio,
        t.all_ratio
    from reading v
    join reading n on n.device_id = v.device_id and n.observed_us = v.observed_us and n.chain <> v.chain
    join separate t on t.device_id = v.device_id and t.observed_us = v.observed_us
    join (select distinct device_id, hour_us from shared where hour_us >= $since_us) h
        on h.device_id = v.device_id
        and v.observed_us >= h.hour_us + 3600000000 - $window_us and v.observed_us < h.hour_us + 3600000000
),
ranked as (
    select
        *,
        rank() over (partition by device_id, chain, other, hour_us order by victim_ratio)
        + (count(*) over (partition by device_id, chain, other, hour_us, victim_ratio) - 1) / 2 as victim_rank,
        rank() over (partition by device_id, chain, other, hour_us order by other_ratio)
        + (count(*) over (partition by device_id, chain, other, hour_us, other_ratio) - 1) / 2 as other_rank,
        count(*) over (partition by device_id, chain, other, hour_us) as points
    from pair
),
measured as (
    select
        device_id,
        chain,
        other,
        hour_us,
        arg_max(run_id, (observed_us, run_id)) as run_id,
        any_value(points) as points,
        min(observed_us) filter (where observed_us >= hour_us) as first_us,
        max(observed_us) as last_us,
        exact_correlation(2 * victim_rank, 2 * other_rank) as rho,
        exact_mean(case when other_rank <= points / 3 then victim_ratio end) as quiet_ratio,
        exact_mean(case when other_rank > points - points / 3 then victim_ratio end) as loud_ratio,
        exact_mean(case when other_rank > points - points / 3 then all_ratio end) as full_ratio,
        count(*) filter (where other_rank > points - points / 3 and observed_us >= hour_us) as loud_points,
        count(*) filter (where observed_us >= hour_us) as hour_points
    from ranked
    group by device_id, chain, other, hour_us
),
noisy as (
    select *, 1 - loud_ratio / quiet_ratio as lost_ratio
    from measured
    where points >= $points_min and rho <= -$rho_min and quiet_ratio > 0
        and 1 - loud_ratio / quiet_ratio >= $drop_min
        -- Without a word of the application: the GPU is full when the other one is loud, so it is they who meet there.
        and full_ratio >= $full_min
        and hour_points > 0
    qualify row_number() over (partition by device_id, chain, hour_us order by rho, other) = 1
)
select
    n.chain,
    n.run_id,
    n.first_us as start_us,
    least(n.last_us, n.hour_us + 3600000000) as end_us,
    j.running and n.last_us >= $known_until_us - $still_us as still,
    [n.device_id] as device_ids,
    0.5 as confidence,
    map {
        'spearman': n.rho,
        'points': n.points::double,
        'lost_ratio': n.lost_ratio,
        'quiet_ratio': n.quiet_ratio,
        'loud_ratio': n.loud_ratio,
        'full_ratio': n.full_ratio
    } as numbers,
    map {'neighbour': o.job_id, 'workload_class': w.workload_class} as words,
    [{
        'device_id': n.device_id,
        'run_id': n.run_id,
        'hour_us': n.hour_us,
        'bucket': 'stalled',
        'us': (n.lost_ratio * n.loud_points / n.hour_points * (n.last_us - n.first_us))::bigint
    }] as claims
from noisy n
join (select chain, bool_or(not ended) as running from job_chain group by chain) j on j.chain = n.chain
join (select chain, any_value(job_id) as job_id from job_chain group by chain) o on o.chain = n.other
left join workload_hour w
    on w.cluster = $cluster and w.device_id = n.device_id and w.run_id = n.run_id and w.hour_us = n.hour_us
where n.hour_us < $until_us and n.last_us > n.first_us
order by start_us, n.chain, n.device_id;
