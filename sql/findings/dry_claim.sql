-- Claims of a rule under test (new_claim), together with the stored claims of the other rules: only its own claims are
-- allocated again.
create or replace temp table wanted_claim as
select * from new_claim
union all by name
select *
from verdict_claim
where cluster = $cluster and detector <> $detector
    and (device_id, hour_us, bucket) in (select (device_id, hour_us, bucket) from new_claim);

create or replace temp table touched_subject as
select distinct subject_kind, subject_id, cause_us from new_result;
