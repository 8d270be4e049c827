-- Leaves the findings of some rules to the next analysis: their evidence has amounts of money.
update rule_state
set owed_from_us = least(coalesce(owed_from_us, f.from_us), f.from_us)
from (
    select detector, min(started_us) as from_us
    from finding
    where cluster = $cluster and list_contains($detectors::varchar[], detector)
    group by detector
) f
where rule_state.cluster = $cluster and rule_state.detector = f.detector;
