-- Adds the hours of earlier claims of the touched subjects that have become part of a finding, or no longer are part of one. $detector
-- is a rule whose conditions are findings only after a time. Run before the findings in `found` take the place of the stored ones.
insert into claim_hour
select distinct c.hour_us
from verdict_claim c
where c.detector = $detector and c.cluster = $cluster
    and (c.subject_kind, c.subject_id) in (select (subject_kind, subject_id) from touched_subject)
    and exists (
        select 1
        from found n
        where n.subject_kind = c.subject_kind and n.subject_id = c.subject_id
            and is_claim_of(c.cause_us, c.verdict_us, n.cause_us, n.started_us, n.last_seen_us)
    ) <> exists (
        select 1
        from finding f
        where f.detector = c.detector and f.cluster = c.cluster
            and f.subject_kind = c.subject_kind and f.subject_id = c.subject_id
            and is_claim_of(c.cause_us, c.verdict_us, f.cause_us, f.started_us, f.last_seen_us)
            and not is_withdrawn(f.resolved_reason)
    );
