-- A row is the name and team of one job that the evidence of findings names by its id: of its latest run.
with wanted as (
    select unnest($clusters::varchar[]) as cluster, unnest($jobs::varchar[]) as job_id
)
select
    w.cluster,
    w.job_id,
    arg_max(r.name, (r.start_us, r.run_id)) as name,
    arg_max(t.team, (r.start_us, r.run_id)) as team
from wanted w
join run r on r.cluster = w.cluster and r.job_id = w.job_id and r.scheduler = 'slurm'
left join run_team t on t.cluster = r.cluster and t.run_id = r.run_id
where r.name is not null
group by w.cluster, w.job_id
order by w.cluster, w.job_id;
