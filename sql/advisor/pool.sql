-- A row is a pool and model of a cluster: its GPUs at the end of the window, how many each of its nodes has, and what an
-- hour of them costs at that instant. What was gone an hour before that is no capacity of tomorrow. Slices count as the
-- part of a GPU that they are, added exactly: 7.5 GPUs are 8 each time.
-- prices: GPUs in 1 / $scale by pricing and currency, and that times the price (10^-$places); all three are NULL where no
-- rate is valid then.
with last_span as (
    select c.cluster, c.device_id, c.share_num, c.share_den, d.pool, d.model, d.node, d.profile
    from capacity c
    join device d on d.device_id = c.device_id and d.cluster = c.cluster
    where c.end_us > $start_us and c.start_us < $end_us and ($cluster is null or c.cluster = $cluster)
        and c.end_us
        >= least($end_us, (select max(end_us) from capacity k where k.cluster = c.cluster)) - 3600000000
    -- The newest layout of a repartitioned GPU.
    qualify least(c.end_us, $end_us) = max(least(c.end_us, $end_us)) over (partition by c.cluster, d.gpu)
),
sized as (
    select cluster, node, sum(share_num * ($scale // share_den)) / $scale as gpus
    from last_span
    where node is not null
    group by all
),
priced as (
    select
        s.cluster,
        s.pool,
        s.model,
        r.pricing,
        r.currency,
        sum(s.share_num * ($scale // s.share_den))::varchar as units,
        sum(
            s.share_num::hugeint * ($scale // s.share_den)
            * (
                split_part(r.usd_per_gpu_hour, '.', 1) || rpad(split_part(r.usd_per_gpu_hour, '.', 2), $places, '0')
            )::hugeint
        )::varchar as amount
    from last_span s
    left join device_price r
        on r.device_id = s.device_id and r.cluster = s.cluster and r.profile is not distinct from s.profile
        and r.start_us < $end_us and r.end_us >= $end_us
    group by all
),
price_list as (
    select
        cluster,
        pool,
        model,
        list({'pricing': pricing, 'currency': currency, 'units': units, 'amount': amount} order by pricing, currency)
            as prices
    from priced
    group by all
)
select
    p.cluster,
    p.pool,
    p.model as gpu_model,
    greatest(round(sum(p.share_num * ($scale // p.share_den)) / $scale), 1)::bigint as gpus,
    count(distinct p.node) as nodes,
    greatest(round(max(n.gpus)), 1)::bigint as gpus_a_node,
    any_value(l.prices) as prices
from last_span p
join price_list l on l.cluster = p.cluster and l.pool is not distinct from p.pool and l.model is not distinct from p.model
left join sized n on n.cluster = p.cluster and n.node = p.node
group by p.cluster, p.pool, p.model
order by all;
