-- A row of ended_run is a run of Slurm whose end nobody recorded, and when it was over. A job runs once at a time: it was when the next
-- run of its number began, if the job was resized, and when the job was submitted again, if it was requeued. `unlisted`: or by the
-- last record of it, where a later list of the jobs of its user, account and partition does not have it; it is held while samples
-- name it, at most until that list.
create or replace temp table ended_run as
with several as (
    select job_id, split_part(run_key, '@', 1) as number
    from wanted
    where scheduler = 'slurm'
    group by all
    having count(distinct run_id) > 1 and not bool_and(ended)
),
run_time as (
    select
        w.run_id,
        w.job_id,
        split_part(w.run_key, '@', 1) as number,
        any_value(w.start_us) as start_us,
        bool_and(w.ended) as ended,
        any_value(c.submit_us) as submit_us,
        any_value(c.last_us) as last_us
    from wanted w
    join several v on v.job_id = w.job_id and v.number = split_part(w.run_key, '@', 1)
    join (
        select job_id, run_key, min(submit_us) as submit_us, max(greatest(start_us, evidence_us)) as last_us
        from claim
        where cluster = $cluster and scheduler = 'slurm'
        group by job_id, run_key
    ) c on c.job_id = w.job_id and c.run_key = w.run_key
    where w.scheduler = 'slurm'
    group by all
),
followed as (
    select
        r.run_id,
        greatest(
            r.last_us, case when n.submit_us > r.start_us then least(n.submit_us, n.start_us) else n.start_us end
        ) as end_us
    from run_time r
    join run_time n on n.job_id = r.job_id and n.number = r.number and n.start_us > r.start_us
    where not r.ended
    qualify row_number() over (partition by r.run_id order by n.start_us, n.run_id) = 1
),
running as (
    select
        ('0x' || substr(md5(concat_ws(chr(31), cluster, scheduler, job_id, run_key)), 1, 15))::bigint as run_id,
        any_value(job_id) as job_id,
        any_value(split_part(run_key, '@', 1)) as number,
        any_value(user_name) as user_name,
        any_value(account) as account,
        any_value(queue) as queue,
        max(greatest(start_us, evidence_us)) as last_us
    from claim
    where cluster = $cluster and scheduler = 'slurm' and start_us is not null
        and exists (select 1 from job_list where cluster = $cluster)
    group by 1
    -- A live source sees each job end.
    having max(end_us) is null and bool_and(file_id is not null)
),
unlisted as (
    select r.run_id, r.job_id, r.number, r.last_us, min(l.at_us) as gone_us
    from running r
    join job_list l
        on l.cluster = $cluster and l.at_us > r.last_us
        and coalesce(l.user_name = r.user_name, true) and coalesce(l.account = r.account, true)
        and coalesce(l.queue = r.queue, true)
    where r.run_id not in (select run_id from followed)
    group by all
),
named as (
    select u.run_id, max(o.last_us + n.last_interval_us // 2) as last_us
    from unlisted u
    join owner_span o on o.job in (u.job_id, u.number) and o.first_us < u.gone_us and o.last_us > u.last_us
    join seen n using (device_id)
    group by u.run_id
)
select run_id, end_us, false as unlisted
from followed
union all
select u.run_id, case when n.last_us is null then u.last_us else least(n.last_us, u.gone_us) end, true
from unlisted u
left join named n using (run_id);

update wanted
set end_us = e.end_us, ended = true
from ended_run e
where wanted.scheduler = 'slurm' and not (e.unlisted and wanted.ended) and wanted.run_id = e.run_id
    and wanted.end_us >= e.end_us;
