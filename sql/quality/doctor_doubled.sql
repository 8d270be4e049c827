-- A row is two runs of one Slurm job that are one: they overlap, or different sources have the same run at another time of day.
with source as (
    select
        cluster,
        job_id,
        run_key,
        list(distinct coalesce(file_id, 0)) as sources,
        list(distinct import_id) filter (where import_id is not null) as imports
    from claim
    left join import_given using (file_id)
    where scheduler = 'slurm'
    group by all
),
slurm_run as (
    select r.cluster, r.job_id, r.run_id, r.start_us, r.end_us, r.ended, s.sources, s.imports
    from run r
    join source s using (cluster, job_id, run_key)
    where r.scheduler = 'slurm' and r.declared and r.end_us > $since_us
),
repeated_job as (
    select cluster, job_id from slurm_run group by all having count(*) > 1
),
several as (
    select * from slurm_run semi join repeated_job using (cluster, job_id)
)
select
    a.cluster,
    a.job_id,
    (b.start_us - a.start_us) / 3600000000 as shift_hours,
    least(a.end_us, b.end_us) > b.start_us as overlaps,
    list_sort(list_distinct(list_concat(coalesce(a.imports, []), coalesce(b.imports, [])))) as imports
from several a
join several b
    on b.cluster = a.cluster and b.job_id = a.job_id and b.run_id <> a.run_id and b.start_us > a.start_us
where
    -- A job that still runs in one export and was requeued in the next one overlaps too; it is no second reading.
    (b.start_us < a.end_us and ((a.ended and b.ended) or (b.start_us - a.start_us) % 900000000 = 0))
    -- Time zones differ by multiples of 15 minutes. One source may have such runs (a cron job of Slurm keeps its id).
    or (
        not list_has_any(a.sources, b.sources)
        and a.ended and b.ended
        and a.end_us - a.start_us = b.end_us - b.start_us
        and (b.start_us - a.start_us) % 900000000 = 0
        and b.start_us - a.start_us <= 93600000000
    )
order by all;
