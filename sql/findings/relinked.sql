-- A row of relinked is a job whose chain of runs has a new first run, because an earlier run became known.
create or replace temp table relinked as
select distinct v.detector, v.subject_id, v.cause_us as old_us, c.chain_start_us as new_us
from verdict v
join job_chain c on c.run_id = v.run_id
where v.cluster = $cluster and v.subject_kind = 'job' and v.cause_us <> c.chain_start_us;
