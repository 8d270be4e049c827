-- Runs after a file with Slurm jobs was read ($file_id), and after files were taken back (NULL: over all). A run whose naive times
-- were read in a wrong zone is set aside where another file has it with exact times. It comes back if that file is taken back.
-- The doctor's criterion for one run read twice (sql/quality/doctor_doubled.sql), and more: submitted as much earlier or later,
-- and no run of the two files agrees, which would show that the zone was right (a cron job of Slurm keeps its id).
create or replace temp table misread as
with ended as (
    select distinct cluster, job_id, file_id, naive_zone is null as exact, start_us, end_us, submit_us
    from claim
    where scheduler = 'slurm' and file_id is not null and end_us is not null
),
pair as (
    select n.cluster, n.job_id, n.start_us, n.file_id, e.file_id as exact_id, e.start_us - n.start_us as shift_us
    from ended n
    join ended e on e.cluster = n.cluster and e.job_id = n.job_id and e.end_us - e.start_us = n.end_us - n.start_us
    where not n.exact and e.exact
        and ($file_id::bigint is null or n.file_id = $file_id or e.file_id = $file_id)
        and shift_us % 900000000 = 0
        and abs(shift_us) <= 93600000000
        and coalesce(e.submit_us - n.submit_us = shift_us, true)
)
select cluster, job_id, start_us, file_id, min(exact_id) as replaced_by
from pair p
where not exists (
    select 1 from pair same where same.file_id = p.file_id and same.exact_id = p.exact_id and same.shift_us = 0
)
group by all;

insert into replaced_claim by name
select c.*, m.replaced_by
from claim c
join misread m using (file_id, cluster, job_id, start_us)
where c.scheduler = 'slurm';

delete from claim c
using misread m
where c.file_id = m.file_id and c.cluster = m.cluster and c.job_id = m.job_id and c.start_us = m.start_us
    and c.scheduler = 'slurm';

insert into replaced_pending by name
select p.*, m.replaced_by
from pending p
join (select file_id, cluster, job_id, min(replaced_by) as replaced_by from misread group by all) m
    using (file_id, cluster, job_id)
where p.scheduler = 'slurm' and p.naive_zone is not null;

delete from pending p
using misread m
where p.file_id = m.file_id and p.cluster = m.cluster and p.job_id = m.job_id and p.scheduler = 'slurm'
    and p.naive_zone is not null;

-- The number of runs set aside.
delete from misread;
