-- Rows about jobs whose chain of runs begins elsewhere now, because an earlier run became known: they move with it.
create or replace temp table relinked as
select distinct v.detector, v.subject_id, v.cause_us as old_us, c.chain_start_us as new_us
from verdict v
join job_chain c on c.run_id = v.run_id
where v.cluster = $cluster and v.subject_kind = 'job' and v.cause_us <> c.chain_start_us;

update verdict v
set cause_us = r.new_us
from relinked r
where v.cluster = $cluster and v.detector = r.detector and v.subject_kind = 'job' and v.subject_id = r.subject_id
    and v.cause_us = r.old_us;

update verdict_claim v
set cause_us = r.new_us
from relinked r
where v.cluster = $cluster and v.detector = r.detector and v.subject_kind = 'job' and v.subject_id = r.subject_id
    and v.cause_us = r.old_us;

update granted_claim v
set cause_us = r.new_us
from relinked r
where v.cluster = $cluster and v.detector = r.detector and v.subject_kind = 'job' and v.subject_id = r.subject_id
    and v.cause_us = r.old_us;

-- A row of claim_hour is an hour in which claims changed in this pass.
create or replace temp table claim_hour (hour_us bigint);
