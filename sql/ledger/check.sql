-- A row is a physical GPU and an hour in which posted shares differ from owned capacity, or a bucket is negative.
-- Shares become whole numbers by the common denominator `scale`; sums stay exact in 128 bits.
with owned as (
    select
        c.device_id as parent_id,
        h.hour_us,
        sum(
            (least(c.end_us, h.hour_us + 3600000000) - greatest(c.start_us, h.hour_us))::hugeint
            * c.share_num * ($scale // c.share_den)
        ) as capacity
    from capacity c
    join (
        select unnest(range($start_us // 3600000000, ($end_us + 3599999999) // 3600000000)) * 3600000000 as hour_us
    ) h
        on c.start_us < h.hour_us + 3600000000 and c.end_us > h.hour_us
    where c.cluster = $cluster
    group by all
),
recorded as (
    select
        d.parent_id,
        l.hour_us,
        sum(
            (
                schedulable_us + stranded_us + out_of_service_us + mig_remainder_us + unobserved_us + hoarded_us
                + gap_us + communication_us + stalled_us + below_roof_us + memory_roof_us + compute_us
            )::hugeint * l.share_num * ($scale // l.share_den)
        ) as recorded,
        min(
            least(
                schedulable_us, stranded_us, out_of_service_us, mig_remainder_us, unobserved_us, hoarded_us,
                gap_us, communication_us, stalled_us, below_roof_us, memory_roof_us, compute_us
            )
        ) as lowest
    from ledger_hour l
    join device d on d.device_id = l.device_id and d.cluster = l.cluster
    where l.cluster = $cluster and l.hour_us >= $start_us // 3600000000 * 3600000000 and l.hour_us < $end_us
    group by all
)
select
    coalesce(d.gpu, parent_id::varchar) as gpu,
    hour_us,
    (coalesce(o.capacity, 0) // $scale)::bigint as capacity,
    (coalesce(r.recorded, 0) // $scale)::bigint as recorded
from owned o
full join recorded r using (parent_id, hour_us)
left join device d on d.device_id = parent_id
where coalesce(o.capacity, 0) <> coalesce(r.recorded, 0) or r.lowest < 0
order by hour_us, gpu;
