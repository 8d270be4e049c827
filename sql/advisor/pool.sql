-- A row is a pool and model of a cluster: its GPUs at the end of the window (advisor/at_end.sql), how many each of its nodes has, and
-- what an hour of them costs at that instant. Slices count as the part of a GPU that they are, added exactly: 7.5 GPUs are 8 each time.
-- prices: GPUs in 1 / $scale by pricing and currency, and that times the price (10^-$places); all three are NULL where no
-- rate is valid then.
with sized as (
    select cluster, node, sum(share_num * ($scale // share_den)) / $scale as gpus
    from span_at_end
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
    from span_at_end s
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
from span_at_end p
join price_list l on l.cluster = p.cluster and l.pool is not distinct from p.pool and l.model is not distinct from p.model
left join sized n on n.cluster = p.cluster and n.node = p.node
group by p.cluster, p.pool, p.model
order by all;
