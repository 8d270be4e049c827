-- A row of observed_hold is a device whose samples name an owner that no scheduler record knows.
-- Labels missing for one scrape do not end it: the last owner is kept for up to twice the spacing.
create or replace temp table observed_hold as
with unclaimed as (
    select o.*, n.last_interval_us as interval_us
    from owner_span o
    join seen n using (device_id)
    where o.rowid not in (select span from label_match)
),
keyed as (
    select
        *,
        coalesce(job, concat_ws('/', namespace, pod)) as job_id,
        case when job is not null then 'slurm' else 'kubernetes' end as scheduler,
        coalesce(pod_uid, job, concat_ws('/', namespace, pod)) as run_key
    from unclaimed
),
linked as (
    select
        *,
        first_us - max(last_us) over (
            partition by device_id, scheduler, job_id, run_key
            order by first_us
            rows between unbounded preceding and 1 preceding
        ) as silence_us
    from keyed
),
numbered as (
    select
        *,
        count(case when silence_us > 2 * interval_us then 1 end) over (
            partition by device_id, scheduler, job_id, run_key order by first_us
        ) as turn
    from linked
)
select
    ('0x' || substr(md5(concat_ws(chr(31), $cluster, scheduler, job_id, run_key)), 1, 15))::bigint as run_id,
    scheduler,
    job_id,
    run_key,
    any_value(namespace) as namespace,
    any_value(pod) as pod,
    any_value(job) as job,
    device_id,
    min(first_us) - any_value(interval_us) // 2 as start_us,
    max(last_us) + any_value(interval_us) // 2 as end_us
from numbered
group by scheduler, job_id, run_key, device_id, turn;
