-- A row is a job with a local time of an hour that clocks repeat or skip, where no record is certain which instant it means.
select distinct c.cluster, c.job_id
from claim c
join run r using (cluster, job_id, run_key)
where c.scheduler = 'slurm' and contains(c.labels, '"gpuwatch.io/local-time"') and r.end_us > $since_us
    and not exists (
        select 1
        from claim k
        where k.cluster = c.cluster and k.scheduler = 'slurm' and k.job_id = c.job_id and k.run_key = c.run_key
            and not coalesce(contains(k.labels, '"gpuwatch.io/local-time"'), false)
    )
order by all;
