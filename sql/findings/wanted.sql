-- A row of wanted_claim is device time that a rule claims in the hours of claim_hour.
create or replace temp table wanted_claim as
select c.*
from verdict_claim c
anti join short_condition s
    on s.detector = c.detector and s.subject_kind = c.subject_kind and s.subject_id = c.subject_id
    and s.cause_us is not distinct from c.cause_us and s.verdict_us = c.verdict_us
where c.cluster = $cluster and c.hour_us in (select hour_us from claim_hour);
