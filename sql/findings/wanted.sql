-- A row of wanted_claim is device time that a rule claims in the hours of claim_hour. $lasting: the rules whose conditions are
-- findings only after a time; until then they claim nothing, so that the time is left to other rules.
create or replace temp table wanted_claim as
select *
from verdict_claim c
where c.cluster = $cluster and c.hour_us in (select hour_us from claim_hour)
    and (
        c.detector not in (select unnest($lasting::varchar[]))
        or exists (
            select 1
            from finding f
            where f.detector = c.detector and f.cluster = c.cluster
                and f.subject_kind = c.subject_kind and f.subject_id = c.subject_id
                and is_claim_of(c.cause_us, c.verdict_us, f.cause_us, f.started_us, f.last_seen_us)
                and not is_withdrawn(f.resolved_reason)
        )
    );
