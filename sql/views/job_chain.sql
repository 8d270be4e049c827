-- A row of job_chain is a run and the chain it belongs to: runs of one job that follow within an hour are one chain, so
-- that a requeue or a rolling update continues a finding.
create or replace temp table job_chain as
-- Only jobs that ran in the window have such a chain. Where a chain has its pause there, a run ends in the hour before.
with touched as (
    select distinct scheduler, job_id
    from run
    where cluster = $cluster and start_us < $until_us and end_us >= least($since_us, $until_us - 3600000000)
),
timed as (
    select r.run_id, r.scheduler, r.job_id, r.labels, r.name, r.start_us, r.end_us, r.ended
    from run r
    where r.cluster = $cluster
        and exists (
            select 1
            from touched t
            where t.scheduler is not distinct from r.scheduler and t.job_id is not distinct from r.job_id
        )
),
linked as (
    select
        *,
        start_us > max(end_us) over (
            partition by scheduler, job_id
            order by start_us, run_id
            rows between unbounded preceding and 1 preceding
        ) + 3600000000 as after_pause
    from timed
),
numbered as (
    select
        *,
        count(case when coalesce(after_pause, true) then 1 end) over (
            partition by scheduler, job_id order by start_us, run_id
        ) as number
    from linked
),
spanned as (
    select
        *,
        min(start_us) over (partition by scheduler, job_id, number) as chain_start_us,
        max(end_us) over (partition by scheduler, job_id, number) as chain_end_us
    from numbered
)
select
    *,
    md5(concat_ws(chr(31), scheduler, job_id, chain_start_us)) as chain,
    -- Exempt until a date: {"gpuwatch.io/exempt-until": "2026-12-31"}. What was before that date stays exempt.
    epoch_us(try_cast(labels ->> '$."gpuwatch.io/exempt-until"' as timestamp)) as exempt_until_us,
    coalesce(exempt_until_us > end_us, false) as exempt,
    coalesce(
        lower(coalesce(labels ->> '$."latency-critical"', labels ->> '$."gpuwatch.io/latency-critical"')) = 'true'
        or lower(coalesce(labels ->> '$."gpuwatch.io/workload-class"', labels ->> '$."workload-class"'))
            = 'latency-critical',
        false
    ) as latency_critical
from spanned
where chain_end_us > $since_us and chain_start_us < $until_us;

-- A row of held is a span of a device in which one run held it, for the chains above.
-- sure: no device was chosen by estimate, or the run holds every device of the node, so that there was no choice.
create or replace temp table held as
with leaf as (
    select device_id, node
    from device d
    where cluster = $cluster
        and not exists (select 1 from device s where s.parent_id = d.device_id and s.device_id <> d.device_id)
),
node_size as (
    select node, count(*) as devices from leaf group by node
),
whole_node as (
    select s.run_id, l.node
    from segment s
    join leaf l using (device_id)
    join node_size z on z.node = l.node
    where s.cluster = $cluster and s.run_id in (select run_id from job_chain)
    group by s.run_id, l.node, z.devices
    having count(distinct s.device_id) = z.devices
)
select
    not s.estimated or (s.run_id, d.node) in (select (run_id, node) from whole_node) as sure,
    s.run_id, s.device_id, s.start_us, s.end_us, s.share_num, s.share_den, c.chain, c.start_us as run_start_us, c.end_us as run_end_us
from segment s
join job_chain c using (run_id)
join device d on d.device_id = s.device_id and d.cluster = s.cluster
where s.cluster = $cluster;
