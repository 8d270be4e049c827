-- A row is a job (NULL: none) and one price: GPU time that was free and stranded on nodes while it held GPUs of the same model
-- there, divided among who held some by for how long and how many. Only what requests lost because free GPUs did not lie
-- together: not what is for the sake of another model or MIG mode.
with place as (
    select
        cluster,
        coalesce(node, gpu) as place,
        coalesce(model, '') as model,
        any_value(pool) as pool,
        min(device_id) as device_id
    from device
    where ($cluster is null or cluster = $cluster) and gi < 0 and profile is null and kind is null
    group by 1, 2, 3
),
state as (
    select
        t.cluster,
        t.place,
        p.model,
        p.pool,
        p.device_id,
        t.milli,
        t.hour_us,
        greatest(t.start_us, $start_us) as start_us,
        least(t.end_us, $end_us) as end_us,
        (t.gpus * t.milli)::hugeint * (t.lost - t.misfit) as lost,
        t.weight * 1000::hugeint as weight
    from stranding t
    join place p on p.cluster = t.cluster and p.place = t.place and p.model = coalesce(t.model, '')
    where t.hour_us > $start_us - 3600000000 and t.hour_us < $end_us
        and t.start_us < $end_us and t.end_us > $start_us
        and not t.partitioned and t.lost > t.misfit
),
-- A state lies in one hour. Holders are taken by the hour too: joined by their times alone, each of a place's states would be
-- compared with each of its holders.
holder as (
    select
        s.cluster,
        coalesce(d.node, d.gpu) as place,
        coalesce(d.model, '') as model,
        s.run_id,
        s.start_us,
        s.end_us,
        unnest(
            range(
                greatest(s.start_us, $start_us) // 3600000000,
                (least(s.end_us, $end_us) + 3599999999) // 3600000000
            )
        )
        * 3600000000 as hour_us
    from segment s
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    where s.run_id is not null and d.gi < 0 and d.profile is null and d.kind is null and s.start_us < $end_us and s.end_us > $start_us
        and ($cluster is null or s.cluster = $cluster)
),
beside as (
    select
        t.cluster,
        t.place,
        t.model,
        t.start_us,
        t.milli,
        h.run_id,
        sum(least(t.end_us, h.end_us) - greatest(t.start_us, h.start_us))::hugeint as held_us
    from state t
    join holder h
        on h.cluster = t.cluster and h.place = t.place and h.model = t.model and h.hour_us = t.hour_us
        and h.start_us < t.end_us and h.end_us > t.start_us
    group by all
),
shared_out as (
    select
        t.cluster,
        t.pool,
        t.model,
        t.device_id,
        t.start_us,
        b.run_id,
        case
            when b.run_id is null then (t.end_us - t.start_us)::hugeint * t.lost // t.weight
            else (t.end_us - t.start_us)::hugeint * t.lost * b.held_us
                // (t.weight * sum(b.held_us) over (partition by t.cluster, t.place, t.model, t.start_us, t.milli))
        end as us
    from state t
    left join beside b
        on b.cluster = t.cluster and b.place = t.place and b.model = t.model and b.start_us = t.start_us
        and b.milli = t.milli
)
select
    d.cluster,
    d.pool,
    nullif(d.model, '') as gpu_model,
    r.job_id,
    any_value(w.team) as team,
    any_value(r.user_name) as user,
    p.usd_per_gpu_hour as price,
    case when p.usd_per_gpu_hour is not null then p.currency end as currency,
    sum(d.us)::bigint as us
from shared_out d
left join run r on r.run_id = d.run_id and r.cluster = d.cluster
left join run_team w on w.run_id = d.run_id and w.cluster = d.cluster
left join device_price p
    on p.cluster = d.cluster and p.device_id = d.device_id and p.profile is null
    and p.start_us <= d.start_us and p.end_us > d.start_us
group by d.cluster, d.pool, d.model, r.job_id, price, currency
having sum(d.us) > 0
order by us desc, d.cluster, d.pool, d.model, r.job_id
limit $limit;
