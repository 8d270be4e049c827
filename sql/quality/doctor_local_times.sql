-- A row is a job with a local time of an hour that clocks repeat or skip, where no record is certain which instant it means.
-- Needs is_estimated_time.
select distinct c.cluster, c.job_id
from claim c
join run r on r.cluster = c.cluster and r.scheduler = c.scheduler and r.job_id = c.job_id and r.run_key = c.run_key
where c.scheduler = 'slurm' and is_estimated_time(c.labels) and coalesce(r.end_us, 9223372036854775807) > $since_us
    and not exists (
        select 1
        from claim k
        where k.cluster = c.cluster and k.scheduler = 'slurm' and k.job_id = c.job_id and k.run_key = c.run_key
            and not is_estimated_time(k.labels)
    )
order by all;
