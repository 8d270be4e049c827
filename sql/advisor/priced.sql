-- A row is a cluster, pool, model, pricing and currency, of devices that were held or not: their time in 1 / $scale
-- GPU-microseconds, and that times the price (10^-$places). pricing, currency and amount are NULL where no rate covers it.
-- With $by_job, held time is grouped by job and team.
with piece as (
    select
        s.cluster,
        d.pool,
        d.model as gpu_model,
        s.run_id,
        r.pricing,
        r.currency,
        r.usd_per_gpu_hour,
        (least(s.end_us, r.end_us, $end_us) - greatest(s.start_us, r.start_us, $start_us))::hugeint
        * (s.share_num * ($scale // s.share_den)) as units
    from segment s
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    join device_price r
        on r.device_id = s.device_id and r.cluster = s.cluster and r.profile is not distinct from s.profile
        and r.start_us < s.end_us and r.end_us > s.start_us
    where s.start_us < $end_us and s.end_us > $start_us and r.start_us < $end_us and r.end_us > $start_us
        and ($cluster is null or s.cluster = $cluster)
        and (s.run_id is not null or not $by_job)
)
select
    p.cluster,
    case when $by_job then n.job_id end as job,
    case when $by_job then coalesce(t.team, '__unallocated__') end as team,
    p.pool,
    p.gpu_model,
    p.pricing,
    p.currency,
    p.run_id is not null as held,
    sum(p.units)::varchar as units,
    sum(
        p.units
        * (
            split_part(p.usd_per_gpu_hour, '.', 1) || rpad(split_part(p.usd_per_gpu_hour, '.', 2), $places, '0')
        )::hugeint
    )::varchar as amount
from piece p
left join run n on $by_job and n.run_id = p.run_id and n.cluster = p.cluster
left join run_team t on $by_job and t.run_id = p.run_id and t.cluster = p.cluster
where $teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__'))
group by all
order by all;
