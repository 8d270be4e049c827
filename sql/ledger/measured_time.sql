-- How long GPUs were measured: from the first to the last hour with readings of a held GPU, without hours in which all that was
-- held was not measured. The first and the last hour count as far as the device with most readings in them does. $teams: only what
-- those teams held, for readers who may not learn of others.
with device_time as (
    select
        hour_us,
        sum(
            hoarded_us + gap_us + communication_us + stalled_us + below_roof_us + memory_roof_us + compute_us
        ) as measured_us,
        sum(unobserved_us) as dark_us
    from ledger_hour l
    where hour_us >= $since_us
        and hour_us < $until_us
        and (
            $teams::varchar[] is null
            or exists (
                from run_team t
                where t.cluster = l.cluster and t.run_id = l.run_id and list_contains($teams::varchar[], t.team)
            )
        )
    group by cluster, device_id, hour_us
),
hours as (
    select hour_us, max(measured_us) as longest_us, sum(dark_us) as dark_us
    from device_time
    group by hour_us
),
ends as (
    select min(hour_us) as first_us, max(hour_us) as last_us
    from hours
    where longest_us > 0
)
select
    coalesce(
        sum(
            case
                when hour_us in (first_us, last_us) then least(longest_us, 3600000000)
                when longest_us > 0 or dark_us = 0 then 3600000000
                else 0
            end
        ),
        0
    )::bigint as measured_us
from hours
cross join ends
where hour_us between first_us and last_us;
