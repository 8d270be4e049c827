-- A row of short_condition is a condition that claims time of the hours in claim_hour and is no finding, of a rule whose conditions
-- are findings only after a time ($lasting). Until then it claims nothing, so that the time is left to other rules.
create or replace temp table short_condition as
select distinct c.detector, c.subject_kind, c.subject_id, c.cause_us, c.verdict_us
from verdict_claim c
where c.cluster = $cluster and c.hour_us in (select hour_us from claim_hour)
    and list_contains($lasting::varchar[], c.detector)
    and not exists (
        select 1
        from finding f
        where f.detector = c.detector and f.cluster = c.cluster
            and f.subject_kind = c.subject_kind and f.subject_id = c.subject_id
            and is_claim_of(c.cause_us, c.verdict_us, f.cause_us, f.started_us, f.last_seen_us)
            and not is_withdrawn(f.resolved_reason)
    );
