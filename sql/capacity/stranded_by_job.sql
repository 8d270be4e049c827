-- A row is a job (NULL: none) and one price: GPU time that was free and stranded on nodes while it held GPUs of the same model
-- there, divided among who held some by for how long and how many. Only what requests lost because free GPUs did not lie
-- together: not free GPUs of a model or MIG mode that no request wants.
-- Places and states are numbered: what follows joins and groups millions of rows, and numbers cost a tenth of names.
with place as materialized (
    select
        cluster,
        coalesce(node, gpu) as place,
        coalesce(model, '') as model,
        row_number() over (order by cluster, coalesce(node, gpu), coalesce(model, '')) as place_no,
        any_value(pool) as pool,
        min(device_id) as device_id
    from device
    where ($cluster is null or cluster = $cluster) and gi < 0 and profile is null and kind is null
    group by 1, 2, 3
),
spent as (
    select
        p.place_no,
        p.cluster,
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
state as materialized (
    select *, dense_rank() over (order by place_no, start_us, milli) as state_no
    from spent
),
-- A state lies in one hour. Holders are taken by the hour too: joined by their times alone, each of a place's states would be
-- compared with each of its holders.
holder as (
    select
        p.place_no,
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
    join place p
        on p.cluster = d.cluster and p.place = coalesce(d.node, d.gpu) and p.model = coalesce(d.model, '')
    where s.run_id is not null and d.gi < 0 and d.profile is null and d.kind is null and s.start_us < $end_us and s.end_us > $start_us
        and ($cluster is null or s.cluster = $cluster)
),
beside as (
    select
        t.state_no,
        h.run_id,
        sum(least(t.end_us, h.end_us) - greatest(t.start_us, h.start_us))::hugeint as held_us
    from state t
    join holder h
        on h.place_no = t.place_no and h.hour_us = t.hour_us and h.start_us < t.end_us and h.end_us > t.start_us
    group by all
),
held as (
    select state_no, sum(held_us) as held_us
    from beside
    group by all
),
shared_out as (
    select
        t.place_no,
        b.run_id,
        p.usd_per_gpu_hour as price,
        p.currency,
        sum(
            case
                when b.run_id is null then (t.end_us - t.start_us)::hugeint * t.lost // t.weight
                else (t.end_us - t.start_us)::hugeint * t.lost * b.held_us // (t.weight * w.held_us)
            end
        ) as us
    from state t
    left join beside b on b.state_no = t.state_no
    left join held w on w.state_no = t.state_no
    left join device_price p
        on p.cluster = t.cluster and p.device_id = t.device_id and p.profile is null
        and p.start_us <= t.start_us and p.end_us > t.start_us
    group by all
)
select
    d.cluster,
    d.pool,
    nullif(d.model, '') as gpu_model,
    r.job_id,
    any_value(w.team) as team,
    any_value(r.user_name) as user,
    s.price,
    case when s.price is not null then s.currency end as currency,
    sum(s.us)::bigint as us
from shared_out s
join place d on d.place_no = s.place_no
left join run r on r.run_id = s.run_id and r.cluster = d.cluster
left join run_team w on w.run_id = s.run_id and w.cluster = d.cluster
group by d.cluster, d.pool, d.model, r.job_id, s.price, case when s.price is not null then s.currency end
having sum(s.us) > 0
order by us desc, d.cluster, d.pool, d.model, r.job_id
limit $limit;
