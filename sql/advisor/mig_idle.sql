-- A row of slice_week is a MIG slice and an evaluated hour, with how much of the $week_us before its end it was held.
create or replace temp table slice_week as
with hourly as (
    select
        l.device_id,
        d.gpu,
        d.gi,
        d.model,
        l.profile,
        l.hour_us,
        sum(
            unobserved_us + hoarded_us + gap_us + communication_us + stalled_us + below_roof_us + memory_roof_us
            + compute_us
        ) as held_us,
        sum(
            schedulable_us + stranded_us + unobserved_us + hoarded_us + gap_us + communication_us + stalled_us
            + below_roof_us + memory_roof_us + compute_us
        ) as known_us
    from ledger_hour l
    join device d on d.device_id = l.device_id and d.cluster = l.cluster
    where l.cluster = $cluster and d.gi >= 0
        and l.hour_us >= $since_us - $week_us and l.hour_us < $until_us
        and exists (select 1 from room_wait)
    group by all
)
select
    *,
    sum(held_us) over week as week_held_us,
    sum(known_us) over week as week_known_us
from hourly
window week as (
    partition by device_id, profile
    order by hour_us
    range between $before_us preceding and current row
)
qualify hour_us >= $since_us;

-- A row of mig_layout is a partitioned GPU and an hour: its instances in order, those with a star that are not given up.
-- Idle: held for less than a tenth of the week, and unallocated in that hour.
create or replace temp table mig_layout as
select
    hour_us,
    gpu,
    any_value(model) as model,
    list(
        profile || case when week_held_us < $held_max * week_known_us and week_known_us >= $known_us and held_us = 0 then ''
            else '*' end
        order by gi
    ) as parts,
    list(device_id order by gi) filter (
        where week_held_us < $held_max * week_known_us and week_known_us >= $known_us and held_us = 0
    ) as idle_ids
from slice_week
group by hour_us, gpu
having count(*) filter (
        where week_held_us < $held_max * week_known_us and week_known_us >= $known_us and held_us = 0
    ) > 0
    -- A layout that changed within the hour is none.
    and count(*) = count(distinct gi);
