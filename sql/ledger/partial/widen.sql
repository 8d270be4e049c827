-- Reads the records of all runs of live_job and live_pod, and adds the jobs and pods that these name.
create or replace temp table read_claim as
select *
from claim
where cluster = $cluster
    and (
        job_id in (select job_id from live_job)
        or pod in (select pod from live_pod)
        or (contains(run_key, '@') and split_part(run_key, '@', 1) in (select job_id from live_job))
    );

create or replace temp table more_name as
select job_id, null::varchar as pod
from read_claim
where job_id is not null and job_id not in (select job_id from live_job)
union
select null, pod
from read_claim
where pod is not null and pod not in (select pod from live_pod);

insert into live_job
select job_id from more_name where job_id is not null;

insert into live_pod
select pod from more_name where pod is not null;

select * from more_name;
