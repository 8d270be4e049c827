-- A row is a job chain with lost work and how much of that work has one price: units / den GPU-microseconds. A NULL price: no
-- rate covers it.
with priced as (
    select
        f.chain,
        p.usd_per_gpu_hour as price,
        p.currency,
        f.share_num,
        f.share_den,
        greatest(f.lost_from_us, coalesce(p.start_us, f.lost_from_us)) as start_us,
        least(f.end_us, coalesce(p.end_us, f.end_us)) as end_us
    from failed_span f
    left join device_price p
        on p.cluster = $cluster and p.device_id = f.device_id and p.profile is not distinct from f.profile
        and p.start_us < f.end_us and p.end_us > f.lost_from_us
    where f.end_us > f.lost_from_us
)
select chain, price, currency, share_den as den, sum((end_us - start_us)::hugeint * share_num)::varchar as units
from priced
group by chain, price, currency, share_den
order by chain;
