-- A row of replay_request is a request that waited in this cluster: on how many nodes it needs how many devices each. Where its
-- nodes are not known, all its devices must be on one node. kind: requests of one kind fit the same places.
create or replace temp table replay_request as
with started as (
    select job_id, run_key, count(distinct node) as nodes
    from claim
    where cluster = $cluster and node is not null
    group by job_id, run_key
),
placed as (
    select job_id, max(nodes) as nodes
    from started
    group by job_id
),
asked as (
    select job_id, max(node_count) as nodes
    from pending
    where cluster = $cluster
    group by job_id
)
select
    r.number,
    o.team,
    dense_rank() over (order by r.scheduler is not distinct from 'slurm', r.queue, r.gpu_type, r.profile) as kind,
    r.scheduler is not distinct from 'slurm' as slurm,
    r.queue,
    r.gpu_type,
    coalesce(r.profile, '') as profile,
    r.device_count as devices,
    least(greatest(coalesce(a.nodes, p.nodes, 1), 1), r.device_count) as nodes,
    r.start_us,
    r.end_us
from report_request r
join report_owner o using (number)
left join asked a using (job_id)
left join placed p using (job_id)
where r.cluster = $cluster;

-- A row of replay_place is a kind of place and a kind of request that it can take: model, profile, and partition where known.
create or replace temp table replay_place as
with place as (
    select
        *,
        dense_rank() over (order by model, pool, profile) as place
    from (
        select distinct coalesce(model, '') as model, coalesce(pool, '') as pool, coalesce(profile, '') as profile
        from device
        where cluster = $cluster and device_id in (select device_id from replay_taken)
    )
)
select distinct p.*, r.kind
from place p
join (select distinct kind, slurm, queue, gpu_type, profile from replay_request) r on r.profile = p.profile
where (r.gpu_type is null or exists (select 1 from report_fit f where f.gpu_type = r.gpu_type and f.model = p.model))
    and (not r.slurm or r.queue is null or p.pool = '' or list_contains(string_split(r.queue, ','), p.pool));

select number, team, kind, nodes, -(-devices // nodes) as devices, start_us, end_us
from replay_request
where kind in (select kind from replay_place)
order by start_us, number;
