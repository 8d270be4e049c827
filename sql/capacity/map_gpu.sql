-- A row is a GPU at one instant: its number, PCIe switch and NUMA node, the job and team that hold most of it, how many jobs
-- hold it, how hot it is, and what its time in the hours from $since_us on was: microseconds by bucket of that job, or of nobody while free.
-- With $teams only what those hold: of other GPUs nothing is known.
with place as (
    select d.cluster, d.gpu, min(d.gpu_index) as gpu_index, min(d.pci_bus_id) as pci_bus_id
    from device d
    join cluster_end e using (cluster)
    where d.kind is null
    group by d.cluster, d.gpu
),
hold as (
    select s.cluster, d.gpu, s.run_id, sum(s.share_num / s.share_den) as share
    from segment s
    join cluster_end e using (cluster)
    join device d on d.cluster = s.cluster and d.device_id = s.device_id
    where s.start_us < e.as_of_us and s.end_us >= e.as_of_us and s.run_id is not null and d.kind is null
    group by s.cluster, d.gpu, s.run_id
),
named as (
    select h.cluster, h.gpu, h.run_id, h.share, r.job_id, r.name, r.user_name, coalesce(t.team, '__unallocated__') as team
    from hold h
    left join run r on r.cluster = h.cluster and r.run_id = h.run_id
    left join run_team t on t.cluster = h.cluster and t.run_id = h.run_id
    where $teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__'))
),
main as (
    select *, count(*) over (partition by cluster, gpu) as jobs
    from named
    qualify row_number() over (partition by cluster, gpu order by share desc, job_id, run_id) = 1
),
inside as (
    select
        t.cluster,
        t.child as gpu,
        min(t.parent) filter (where t.parent_kind = 'pcie') as pcie,
        min(t.parent) filter (where t.parent_kind = 'numa') as numa
    from topology_edge t
    join cluster_end e using (cluster)
    where t.child_kind = 'gpu'
        and coalesce(t.valid_from_us <= e.at_us, true)
        and coalesce(t.valid_until_us > e.at_us, true)
    group by t.cluster, t.child
),
reading as (
    select device_id, observed_us, gpu_temp_celsius from sample where observed_us >= $read_us
    union all
    select device_id, observed_us, gpu_temp_celsius from sample_tail where observed_us >= $read_us
),
-- A slice reports the temperature of its GPU.
heat as (
    select d.cluster, d.gpu, arg_max(r.gpu_temp_celsius, (r.observed_us, r.gpu_temp_celsius)) as celsius
    from reading r
    join device d using (device_id)
    join cluster_end e on e.cluster = d.cluster
    where r.observed_us >= e.as_of_us - $recent_us and r.observed_us <= e.at_us
    group by d.cluster, d.gpu
),
spent as (
    select
        l.cluster,
        d.gpu,
        sum(l.schedulable_us) as schedulable,
        sum(l.stranded_us) as stranded,
        sum(l.unobserved_us) as unobserved,
        sum(l.hoarded_us) as hoarded,
        sum(l.gap_us) as gap,
        sum(l.communication_us) as communication,
        sum(l.stalled_us) as stalled,
        sum(l.below_roof_us) as below_roof,
        sum(l.memory_roof_us) as memory_roof,
        sum(l.compute_us) as compute
    from ledger_hour l
    join cluster_end e using (cluster)
    join device d on d.cluster = l.cluster and d.device_id = l.device_id
    left join main m on m.cluster = l.cluster and m.gpu = d.gpu
    where l.hour_us >= $since_us and l.hour_us < e.as_of_us
        and l.run_id is not distinct from m.run_id
        and ($teams::varchar[] is null or m.run_id is not null)
    group by l.cluster, d.gpu
)
select
    p.cluster,
    p.gpu,
    p.gpu_index,
    p.pci_bus_id,
    i.pcie,
    i.numa,
    m.job_id,
    m.name as job_name,
    m.user_name,
    m.team,
    coalesce(m.jobs, 0) as jobs,
    case when $teams::varchar[] is null or m.run_id is not null then h.celsius end as celsius,
    s.* exclude (cluster, gpu)
from place p
left join main m using (cluster, gpu)
left join inside i using (cluster, gpu)
left join heat h using (cluster, gpu)
left join spent s using (cluster, gpu)
order by p.cluster, p.gpu;
