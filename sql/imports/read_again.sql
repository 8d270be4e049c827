-- Runs after a file with naive times was read: an earlier reading of the same job with the same naive time in another zone is
-- set aside. It comes back if the file is taken back.
create or replace temp table read_run as
select distinct cluster, scheduler, job_id, naive_us, naive_zone
from claim
where file_id = $file_id and naive_zone is not null;

create or replace temp table read_request as
select distinct cluster, scheduler, job_id, naive_us, naive_zone
from pending
where file_id = $file_id and naive_zone is not null;

insert into replaced_claim by name
select c.*, $file_id::bigint as replaced_by
from claim c
where c.file_id <> $file_id
    and exists (
        select 1
        from read_run r
        where r.cluster = c.cluster and r.scheduler = c.scheduler and r.job_id = c.job_id and r.naive_us = c.naive_us
            and r.naive_zone <> c.naive_zone
    );

delete from claim c
where c.file_id <> $file_id
    and exists (
        select 1
        from read_run r
        where r.cluster = c.cluster and r.scheduler = c.scheduler and r.job_id = c.job_id and r.naive_us = c.naive_us
            and r.naive_zone <> c.naive_zone
    );

insert into replaced_pending by name
select p.*, $file_id::bigint as replaced_by
from pending p
where p.file_id <> $file_id
    and exists (
        select 1
        from read_request r
        where r.cluster = p.cluster and r.scheduler = p.scheduler and r.job_id = p.job_id and r.naive_us = p.naive_us
            and r.naive_zone <> p.naive_zone
    );

delete from pending p
where p.file_id <> $file_id
    and exists (
        select 1
        from read_request r
        where r.cluster = p.cluster and r.scheduler = p.scheduler and r.job_id = p.job_id and r.naive_us = p.naive_us
            and r.naive_zone <> p.naive_zone
    );

drop table read_run;

drop table read_request;
