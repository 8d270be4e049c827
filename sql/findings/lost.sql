-- A row of lost_subject is a job or a run that results or findings are about and that no longer exists.
create or replace temp table lost_subject as
with subject as (
    select distinct subject_id, run_id from verdict where cluster = $cluster
    union
    select distinct subject_id, run_id from finding where cluster = $cluster
)
select distinct subject_id as job_id, null::bigint as run_id
from subject
where subject_id not in (select job_id from run where cluster = $cluster and job_id is not null)
union all
select distinct null, run_id
from subject
where run_id not in (select run_id from run where cluster = $cluster);
