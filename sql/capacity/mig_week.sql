-- A row is an hour, a pool, a model and a MIG profile, and for how long instances of it were held.
select
    l.hour_us,
    d.pool,
    d.model,
    l.profile,
    sum(
        unobserved_us + hoarded_us + gap_us + communication_us + stalled_us + below_roof_us + memory_roof_us
        + compute_us
    )::bigint as held_us
from ledger_hour l
join device d on d.device_id = l.device_id and d.cluster = l.cluster
where l.cluster = $cluster and d.gi >= 0 and l.run_id is not null
    and l.hour_us >= $from_us and l.hour_us < $until_us
group by all
order by all;
