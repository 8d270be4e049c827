-- A row of lost_job is a job that results or findings are about, and no run is of.
create or replace temp table lost_job as
with subject as (
    select distinct subject_id as job_id from verdict where cluster = $cluster
    union
    select distinct subject_id from finding where cluster = $cluster
)
select job_id from subject
where job_id not in (select job_id from run where cluster = $cluster and job_id is not null);

-- A row of lost_run is a run that results or findings name, and that is none any more.
create or replace temp table lost_run as
with named as (
    select distinct run_id from verdict where cluster = $cluster
    union
    select distinct run_id from finding where cluster = $cluster
)
select run_id from named where run_id not in (select run_id from run where cluster = $cluster);
