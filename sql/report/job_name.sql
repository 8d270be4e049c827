-- A row is the name of a job that held GPUs in the window.
select
    cluster,
    job_id,
    any_value(name) as name
from run
where start_us < $end_us and coalesce(end_us, $end_us) > $start_us and name is not null and name <> job_id
group by cluster, job_id
order by cluster, job_id;
