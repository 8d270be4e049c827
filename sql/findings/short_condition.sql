-- A row of short_condition is a condition that is no finding, of a rule whose conditions are findings only after a time
-- ($lasting). Until then it claims nothing, so that the time is left to other rules.
create or replace temp table short_condition as
select distinct v.detector, v.subject_kind, v.subject_id, v.cause_us, v.start_us as verdict_us
from verdict v
where v.cluster = $cluster and list_contains($lasting::varchar[], v.detector)
    and not exists (
        select 1
        from finding f
        where f.detector = v.detector and f.cluster = v.cluster
            and f.subject_kind = v.subject_kind and f.subject_id = v.subject_id
            and is_claim_of(v.cause_us, v.start_us, f.cause_us, f.started_us, f.last_seen_us)
            and not is_withdrawn(f.resolved_reason)
    );
