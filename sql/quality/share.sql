-- A row is the held time of the ledger since an hour: in total, without a team, and unmeasured.
select
    sum(units) as held,
    sum(units) filter (where lacking) as unattributed,
    sum(unobserved) as unobserved
from (
    select
        coalesce(t.team, '__unallocated__') = '__unallocated__' as lacking,
        (
            l.unobserved_us + l.hoarded_us + l.gap_us + l.communication_us + l.stalled_us + l.below_roof_us
            + l.memory_roof_us + l.compute_us
        )::double * l.share_num / l.share_den as units,
        l.unobserved_us::double * l.share_num / l.share_den as unobserved
    from ledger_hour l
    left join run_team t on t.run_id = l.run_id and t.cluster = l.cluster
    where l.hour_us >= $since_us and l.run_id is not null
);
