-- Leaves the findings of some rules to the next analysis: their evidence has amounts of money. Those of `whole` evaluate a
-- whole cluster at a time: they are evaluated where they found nothing before, too.
update rule_state
set owed_from_us = least(coalesce(owed_from_us, f.from_us), f.from_us)
from (
    select detector, min(from_us) as from_us
    from (
        select detector, started_us as from_us
        from finding
        where cluster = $cluster and list_contains($detectors::varchar[], detector)
        union all
        select w.detector, h.hour_us
        from (select unnest($whole::varchar[]) as detector) w
        cross join (select max(hour_us) as hour_us from ledger_hour where cluster = $cluster) h
    )
    where from_us is not null
    group by detector
) f
where rule_state.cluster = $cluster and rule_state.detector = f.detector;
