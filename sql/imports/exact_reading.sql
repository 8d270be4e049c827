-- Runs after a file with jobs of Slurm or Ray was read ($file_id), and after files were taken back (NULL: over all). A run whose
-- naive times were read in a wrong zone is set aside where another file has it with exact times. It comes back if that file is
-- taken back. For Slurm it is the doctor's criterion for one run read twice (sql/quality/doctor_doubled.sql), and more: submitted
-- as much earlier or later, and no run of the two files agrees, which would show that the zone was right (a cron job of Slurm
-- keeps its id). Ids of Ray are used once.
create or replace temp table misread as
with ended as (
    select distinct
        cluster, scheduler, job_id, pod_uid, file_id, naive_zone is null as exact, start_us, end_us, submit_us
    from claim
    where scheduler in ('slurm', 'ray') and file_id is not null and end_us is not null
),
pair as (
    select
        n.cluster,
        n.scheduler,
        n.job_id,
        n.pod_uid,
        n.start_us,
        n.file_id,
        e.file_id as exact_id,
        e.start_us - n.start_us as shift_us
    from ended n
    join ended e
        on e.cluster = n.cluster and e.scheduler = n.scheduler and e.job_id = n.job_id
        and e.pod_uid is not distinct from n.pod_uid
        and e.end_us - e.start_us = n.end_us - n.start_us
    where not n.exact and e.exact
        and ($file_id::bigint is null or n.file_id = $file_id or e.file_id = $file_id)
        and shift_us % 900000000 = 0
        and abs(shift_us) <= 93600000000
        and (n.scheduler = 'ray' or coalesce(e.submit_us - n.submit_us = shift_us, true))
)
select cluster, scheduler, job_id, pod_uid, start_us, file_id, min(exact_id) as replaced_by
from pair p
where shift_us <> 0
    and (
        scheduler = 'ray'
        or not exists (
            select 1 from pair same where same.file_id = p.file_id and same.exact_id = p.exact_id and same.shift_us = 0
        )
    )
group by all;

insert into replaced_claim by name
select c.*, m.replaced_by
from claim c
join misread m
    on m.file_id = c.file_id and m.cluster = c.cluster and m.scheduler = c.scheduler and m.job_id = c.job_id
    and m.start_us = c.start_us and m.pod_uid is not distinct from c.pod_uid;

delete from claim c
using misread m
where m.file_id = c.file_id and m.cluster = c.cluster and m.scheduler = c.scheduler and m.job_id = c.job_id
    and m.start_us = c.start_us and m.pod_uid is not distinct from c.pod_uid;

insert into replaced_pending by name
select p.*, m.replaced_by
from pending p
join (select file_id, cluster, scheduler, job_id, min(replaced_by) as replaced_by from misread group by all) m
    using (file_id, cluster, scheduler, job_id)
where p.naive_zone is not null;

delete from pending p
using misread m
where m.file_id = p.file_id and m.cluster = p.cluster and m.scheduler = p.scheduler and m.job_id = p.job_id
    and p.naive_zone is not null;

-- The number of runs set aside.
delete from misread;
