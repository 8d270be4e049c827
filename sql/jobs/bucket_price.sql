-- A row is a bucket of one job at one price: an hour whose price changes is divided in proportion to its time.
with priced as (
    select
        l.*,
        p.usd_per_gpu_hour,
        least(p.end_us, l.hour_us + 3600000000) - greatest(p.start_us, l.hour_us) as part_us
    from ledger_hour l
    join device_price p
        on p.device_id = l.device_id and p.cluster = l.cluster and p.profile is not distinct from l.profile
        and p.start_us < l.hour_us + 3600000000 and p.end_us > l.hour_us
    where l.run_id in (select run_id from asked_run) and p.usd_per_gpu_hour is not null
        and l.hour_us >= $start_us and l.hour_us < $end_us
),
long as (
    unpivot priced
    on
        unobserved_us, hoarded_us, gap_us, communication_us, stalled_us, below_roof_us, memory_roof_us, compute_us
    into name bucket value us
)
select
    replace(bucket, '_us', '') as bucket,
    usd_per_gpu_hour as price,
    share_den,
    sum(us::hugeint * share_num * part_us)::varchar as units
from long
where us > 0
group by all
order by all;
