-- A row is the latest record of a pod, or of a run on a node, that has not ended.
select * exclude (place, file_id)
from (
    select
        *,
        concat_ws(chr(31), job_id, run_key, pod_uid, node, profile, gpu_type) as place
    from claim
    where cluster = $cluster and scheduler = $scheduler
)
qualify row_number() over (partition by place order by evidence_us desc nulls last) = 1
    and count(end_us) over (partition by place) = 0
order by job_id, run_key, pod_uid, node, profile, gpu_type;
