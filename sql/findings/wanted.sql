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
                and c.verdict_us >= f.started_us and c.verdict_us <= f.last_seen_us
                and coalesce(f.resolved_reason not in ('rule_changed', 'records changed'), true)
        )
    );
