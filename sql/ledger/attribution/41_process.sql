-- Divides shared devices by what the processes of each owner used, where it is known; where all of them used nothing, the
-- division stays. Free replicas stay free: only the bound part is divided.
create or replace temp table process_share as
with divided as (
    select device_id, start_us, sum(parts) as bound
    from holder
    where split in ('bound', 'replica', 'share')
        and device_id in (select device_id from process_use where cluster = $cluster and units is not null)
    group by device_id, start_us
    having count(*) > 1
),
-- A label set belongs to an owner if it has the owner's names; pod uids are compared if both have one.
named as (
    select distinct run_id, scheduler, pod, namespace, pod_uid, job_id, split_part(run_key, '@', 1) as raw_job_id
    from wanted
    union
    select distinct run_id, scheduler, pod, namespace, null, job, job
    from observed_hold
),
owner as (
    select distinct n.run_id, c.context_id
    from named n
    join context c on c.cluster = $cluster and c.pod = n.pod and c.namespace is not distinct from n.namespace
    where n.scheduler = 'kubernetes' and coalesce(c.pod_uid = n.pod_uid, true)
    union
    select distinct n.run_id, c.context_id
    from named n
    join context c on c.cluster = $cluster and c.job in (n.job_id, n.raw_job_id)
    where n.scheduler = 'slurm'
),
used as (
    select
        d.device_id,
        d.start_us,
        o.run_id,
        sum(u.units::hugeint * (least(e.end_us, u.start_us + 300000000) - greatest(e.start_us, u.start_us))) as units
    from divided d
    join elementary e using (device_id, start_us)
    join process_use u
        on u.device_id = d.device_id and u.units is not null
        and u.start_us < e.end_us and u.start_us + 300000000 > e.start_us
    join owner o on o.context_id = u.context_id
    where u.cluster = $cluster
    group by d.device_id, d.start_us, o.run_id
),
ranked as (
    select
        h.device_id,
        h.start_us,
        h.run_id,
        h.all_parts,
        d.bound,
        coalesce(u.units, 0) as units,
        sum(coalesce(u.units, 0)) over (partition by h.device_id, h.start_us) as all_units,
        sum(coalesce(u.units, 0)) over (
            partition by h.device_id, h.start_us order by h.run_id rows unbounded preceding
        ) as units_to
    from holder h
    join divided d using (device_id, start_us)
    left join used u using (device_id, start_us, run_id)
),
-- Ten-thousandths by cumulative rounding, so that they add up.
dealt as (
    select
        *,
        (20000 * units_to + all_units) // (2 * all_units)
        - (20000 * (units_to - units) + all_units) // (2 * all_units) as share
    from ranked
    where all_units > 0
)
select
    device_id,
    start_us,
    run_id,
    case when bound = all_parts then share else share * bound end::bigint as parts,
    case when bound = all_parts then 10000 else 10000 * all_parts end::bigint as all_parts
from dealt;

update holder
set parts = p.parts, all_parts = p.all_parts, split = 'process'
from process_share p
where p.device_id = holder.device_id and p.start_us = holder.start_us and p.run_id is not distinct from holder.run_id;
