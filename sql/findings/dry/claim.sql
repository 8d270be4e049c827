-- Claims of the findings of a rule under test (new_claim, found), together with the stored claims of the other rules: only its
-- own claims are allocated again.
create or replace temp table wanted_claim as
with own as (
    select n.*
    from new_claim n
    where exists (
        select 1
        from found f
        where f.subject_kind = n.subject_kind and f.subject_id = n.subject_id
            and is_claim_of(n.cause_us, n.verdict_us, f.cause_us, f.started_us, f.last_seen_us)
    )
)
select * from own
union all by name
select c.*
from verdict_claim c
anti join short_condition s
    on s.detector = c.detector and s.subject_kind = c.subject_kind and s.subject_id = c.subject_id
    and s.cause_us is not distinct from c.cause_us and s.verdict_us = c.verdict_us
where c.cluster = $cluster and c.detector <> $detector
    and (c.device_id, c.hour_us, c.bucket) in (select (device_id, hour_us, bucket) from own);
