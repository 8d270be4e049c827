-- A row is a chain of runs of a training gang with members on MIG slices. Slices of a GPU have no NVLink
-- and no peer-to-peer between them, so that traffic between the members goes through the host.
with slice as (
    select device_id
    from device
    where cluster = $cluster and profile is not null
),
member as (
    select h.chain, h.run_id, h.device_id, h.start_us, h.end_us, d.gpu, d.profile is not null as is_slice
    from held h
    join device d on d.device_id = h.device_id and d.cluster = $cluster
    where h.sure and h.chain in (select chain from held where sure and device_id in (select device_id from slice))
),
-- Members at the same instant: a job that moved from one slice to the next is no gang.
edge as (
    select chain, start_us as at_us, 1 as members, is_slice::integer as slices from member
    union all
    select chain, end_us, -1, -is_slice::integer from member
),
level as (
    select
        chain,
        at_us,
        lead(at_us) over by_time as until_us,
        sum(members) over by_time as members,
        sum(slices) over by_time as slices
    from (
        select chain, at_us, sum(members) as members, sum(slices) as slices
        from edge
        group by chain, at_us
    )
    window by_time as (partition by chain order by at_us)
),
together as (
    select
        chain,
        min(at_us) as start_us,
        max(until_us) as end_us,
        max(members) as members,
        max(slices) as slices,
        sum(until_us - at_us) as together_us
    from level
    where members >= 2 and slices >= 1 and until_us is not null
    group by chain
    having sum(until_us - at_us) >= $together_us_min
),
-- What calls itself a distributed training job, by the kind of its controller or by the labels of its pods.
controlled as (
    select distinct job_id
    from workload
    where cluster = $cluster
        and kind in (
            'PyTorchJob', 'MPIJob', 'TFJob', 'XGBoostJob', 'PaddleJob', 'JAXJob', 'TrainJob', 'RayJob', 'DeepSpeedJob'
        )
        and coalesce(pod_count, 2) >= 2
        and job_id in (select job_id from job_chain where chain in (select chain from together))
),
training as (
    select
        c.chain,
        bool_or(
            coalesce(
                json_exists(c.labels, '$."training.kubeflow.org/job-name"')
                or json_exists(c.labels, '$."trainer.kubeflow.org/trainjob-ancestor-step"')
                or json_exists(c.labels, '$."mpi-job-name"'),
                false
            )
            or coalesce(
                lower(coalesce(c.labels ->> '$."gpuwatch.io/workload-class"', c.labels ->> '$."workload-class"'))
                in ('train', 'training', 'distributed-training', 'fine-tuning'),
                false
            )
            or coalesce(
                lower(coalesce(c.labels ->> '$."gpuwatch.io/parallelism"', c.labels ->> '$."parallelism"'))
                in ('data', 'ddp', 'dp', 'fsdp', 'zero', 'tensor', 'tp', 'pipeline', 'pp', '3d', 'expert', 'ep'),
                false
            )
            or c.job_id in (select job_id from controlled)
        ) as is_training,
        -- Trials and replicas that never speak to each other lose nothing.
        bool_or(
            coalesce(
                lower(coalesce(c.labels ->> '$."gpuwatch.io/parallelism"', c.labels ->> '$."parallelism"'))
                in ('trials', 'independent', 'none'),
                false
            )
            or coalesce(
                lower(coalesce(c.labels ->> '$."gpuwatch.io/workload-class"', c.labels ->> '$."workload-class"'))
                in (
                    'hpo', 'inference', 'serving', 'batch-inference', 'latency-critical', 'independent-trials',
                    'embarrassingly-parallel'
                ),
                false
            )
            or coalesce(
                json_exists(c.labels, '$."katib.kubeflow.org/experiment"')
                or json_exists(c.labels, '$."serving.kserve.io/inferenceservice"')
                or json_exists(c.labels, '$."ray.io/serve"'),
                false
            )
        ) as is_apart,
        bool_or(c.exempt) as is_exempt
    from job_chain c
    where c.chain in (select chain from together)
    group by c.chain
),
accused as (
    select t.*, g.start_us, g.end_us, g.members, g.slices, g.together_us
    from training t
    join together g on g.chain = t.chain
    where t.is_training and not t.is_apart and not t.is_exempt
),
lost as (
    select
        h.chain,
        l.device_id,
        l.run_id,
        l.hour_us,
        unnest(['communication', 'below_roof']) as bucket,
        unnest([sum(l.communication_us), sum(l.below_roof_us)]) as us
    from (select distinct m.chain, m.run_id from member m join accused a on a.chain = m.chain) h
    join ledger_hour l on l.cluster = $cluster and l.run_id = h.run_id
    join device d on d.device_id = l.device_id and d.cluster = l.cluster
    group by h.chain, l.device_id, l.run_id, l.hour_us
),
claimed as (
    select
        chain,
        list({'device_id': device_id, 'run_id': run_id, 'hour_us': hour_us, 'bucket': bucket, 'us': us::bigint})
            filter (where us > 0) as claims
    from lost
    group by chain
),
spread as (
    select chain, list_sort(list(distinct device_id)) as device_ids, count(distinct gpu) as gpus
    from member
    where chain in (select chain from accused)
    group by chain
)
select
    a.chain,
    a.start_us,
    least(a.end_us, $known_until_us) as end_us,
    'high' as severity,
    0.9 as confidence,
    s.device_ids,
    map {
        'members': a.members::double,
        'slices': a.slices::double,
        'gpus': s.gpus::double,
        'together_hours': round(a.together_us / 3600e6, 2)
    } as numbers,
    map {'spread': case when s.gpus = 1 then 'one GPU' else s.gpus || ' GPUs' end} as words,
    c.claims
from accused a
join spread s on s.chain = a.chain
left join claimed c on c.chain = a.chain
order by a.start_us, a.chain;
