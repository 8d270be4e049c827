-- One row: what the ledger has recorded from the first whole hour of a span on: hours, and GPU-hours.
select
    count(distinct hour_us) as hours,
    coalesce(
        sum(
            (
                schedulable_us + stranded_us + out_of_service_us + mig_remainder_us + unobserved_us + hoarded_us
                + gap_us + communication_us + stalled_us + below_roof_us + memory_roof_us + compute_us
            ) * (share_num / share_den)
        ) / 3600000000,
        0
    ) as gpu_hours,
    max(hour_us) + 3600000000 as until_us
from ledger_hour
where hour_us >= ($from_us + 3599999999) // 3600000000 * 3600000000 and hour_us < $until_us;
