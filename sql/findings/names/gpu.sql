-- A row is the index on its node of one GPU that the evidence of findings names by its UUID.
with wanted as (
    select unnest($clusters::varchar[]) as cluster, unnest($gpus::varchar[]) as gpu
)
select
    w.cluster,
    w.gpu,
    arg_max(d.gpu_index, (coalesce(d.last_us, 0), d.gpu_index)) as gpu_index
from wanted w
join device d on d.cluster = w.cluster and d.gpu = w.gpu
where d.gpu_index is not null
group by w.cluster, w.gpu
order by w.cluster, w.gpu;
