-- A row is two runs of one job that are one: runs of a Slurm job that overlap, or that different sources have at another time of
-- day; or a run that two clusters have: a pod of one UID, or a Slurm job of one user, node and length. other_cluster is NULL
-- for two runs of one cluster.
with source as (
    select
        cluster,
        job_id,
        run_key,
        any_value(user_name) as user_name,
        list(distinct lower(node)) filter (where node is not null) as nodes,
        list(distinct coalesce(file_id, 0)) as sources,
        list(distinct import_id) filter (where import_id is not null) as imports
    from claim
    left join import_given using (file_id)
    where scheduler = 'slurm'
    group by all
),
slurm_run as (
    select r.cluster, r.job_id, r.run_id, r.start_us, r.end_us, r.ended, s.sources, s.imports, s.user_name, s.nodes
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
    null as other_cluster,
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
    -- Time zones differ by multiples of 15 minutes. One source may have such runs (a cron job of Slurm keeps its id), and a scheduler
    -- that lost its state gives ids of others again.
    or (
        not list_has_any(a.sources, b.sources)
        and coalesce(a.user_name = b.user_name, true)
        and coalesce(list_has_any(a.nodes, b.nodes), true)
        and a.ended and b.ended
        and a.end_us - a.start_us = b.end_us - b.start_us
        and (b.start_us - a.start_us) % 900000000 = 0
        and b.start_us - a.start_us <= 93600000000
    )
union all
select
    a.cluster,
    b.cluster,
    a.job_id,
    abs(b.start_us - a.start_us) / 3600000000,
    least(a.end_us, b.end_us) > greatest(a.start_us, b.start_us),
    list_sort(list_distinct(list_concat(coalesce(a.imports, []), coalesce(b.imports, []))))
from slurm_run a
join slurm_run b
    on b.job_id = a.job_id and b.cluster > a.cluster and b.user_name is not distinct from a.user_name
where list_has_any(a.nodes, b.nodes)
    and (
        a.start_us = b.start_us
        or (
            a.ended and b.ended
            and a.end_us - a.start_us = b.end_us - b.start_us
            and (b.start_us - a.start_us) % 900000000 = 0
            and abs(b.start_us - a.start_us) <= 93600000000
        )
    )
union all
select
    a.cluster,
    b.cluster,
    a.job_id,
    0,
    true,
    []
from (
    select distinct c.cluster, c.job_id, c.pod_uid
    from claim c
    join run r using (cluster, job_id, run_key)
    where c.scheduler = 'kubernetes' and c.pod_uid is not null and r.end_us > $since_us
) a
join (
    select distinct cluster, pod_uid from claim where scheduler = 'kubernetes' and pod_uid is not null
) b
    on b.pod_uid = a.pod_uid and b.cluster > a.cluster
order by all;
