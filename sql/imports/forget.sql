-- Removes what is noted about files that are taken back, and their bills. Readings in another time zone that they replaced
-- come back, unless a third file replaces them.
delete from replaced_claim where list_contains($files::bigint[], file_id);

delete from replaced_pending where list_contains($files::bigint[], file_id);

create or replace temp table returned_claim as
select * from replaced_claim where list_contains($files::bigint[], replaced_by);

create or replace temp table returned_pending as
select * from replaced_pending where list_contains($files::bigint[], replaced_by);

delete from replaced_claim where list_contains($files::bigint[], replaced_by);

delete from replaced_pending where list_contains($files::bigint[], replaced_by);

insert into replaced_claim by name
select r.* replace (c.file_id as replaced_by)
from returned_claim r
join (select distinct cluster, scheduler, job_id, naive_us, naive_zone, file_id from claim where naive_zone is not null and file_id is not null) c
    on c.cluster = r.cluster and c.scheduler = r.scheduler and c.job_id = r.job_id and c.naive_us = r.naive_us
    and c.naive_zone <> r.naive_zone
qualify row_number() over (partition by r.rowid order by c.file_id) = 1;

insert into replaced_pending by name
select r.* replace (p.file_id as replaced_by)
from returned_pending r
join (select distinct cluster, scheduler, job_id, naive_us, naive_zone, file_id from pending where naive_zone is not null and file_id is not null) p
    on p.cluster = r.cluster and p.scheduler = r.scheduler and p.job_id = r.job_id and p.naive_us = r.naive_us
    and p.naive_zone <> r.naive_zone
qualify row_number() over (partition by r.rowid order by p.file_id) = 1;

insert into claim by name
select r.* exclude (replaced_by)
from returned_claim r
where not exists (
    select 1
    from claim c
    where c.cluster = r.cluster and c.scheduler = r.scheduler and c.job_id = r.job_id and c.naive_us = r.naive_us
        and c.naive_zone <> r.naive_zone and c.file_id is not null
);

insert into pending by name
select r.* exclude (replaced_by)
from returned_pending r
where not exists (
    select 1
    from pending p
    where p.cluster = r.cluster and p.scheduler = r.scheduler and p.job_id = r.job_id and p.naive_us = r.naive_us
        and p.naive_zone <> r.naive_zone and p.file_id is not null
);

drop table returned_claim;

drop table returned_pending;

delete from bill
where file_id in (select bill_file_id from import_file where list_contains($files::bigint[], file_id));

delete from bill_file
where file_id in (select bill_file_id from import_file where list_contains($files::bigint[], file_id));

delete from reject
where (digest, kind, cluster) in (
    select (digest, kind, cluster) from import_file where list_contains($files::bigint[], file_id)
);

delete from import_given where list_contains($files::bigint[], file_id);

delete from import_file where list_contains($files::bigint[], file_id);
