-- Which file a record came from, so that an import can be taken back.
-- file_id: import_file.file_id. NULL: pushed or scraped, or imported by an earlier version. In sample, -1: several files, or a
-- file and a live source, gave the sample; their readings are in sample_origin.
alter table sample add column file_id bigint;
alter table sample_tail add column file_id bigint;
alter table claim add column file_id bigint;
alter table pending add column file_id bigint;
alter table node add column file_id bigint;
alter table event add column file_id bigint;
alter table link add column file_id bigint;
alter table queue add column file_id bigint;
alter table workload add column file_id bigint;
alter table reservation add column file_id bigint;

-- A row is a reading of a sample that several sources gave, as one of them gave it.
create table sample_origin as
select * from sample where false;

-- The first naive time of a record (a local time without an offset) as if it were UTC, and the zone in which it was read.
alter table claim add column naive_us bigint;
alter table claim add column naive_zone varchar;
alter table pending add column naive_us bigint;
alter table pending add column naive_zone varchar;

-- A row is a record that a later import read in another time zone; replaced_by is the file_id of that import's file.
create table replaced_claim as
select *, null::bigint as replaced_by from claim where false;
create table replaced_pending as
select *, null::bigint as replaced_by from pending where false;

-- zone: in which naive times were read, '' for kinds without any; place: absolute path; bill_file_id: bill_file.file_id of a
-- bill; first_us, last_us: of its samples. traced: whether its records have its file_id, NULL in imports of earlier versions.
alter table import_file add column file_id bigint;
alter table import_file add column zone varchar;
alter table import_file add column place varchar;
alter table import_file add column bill_file_id bigint;
alter table import_file add column first_us bigint;
alter table import_file add column last_us bigint;
alter table import_file add column traced boolean;

-- A row is an import: one command, upload or backfill. finished: it was not interrupted;
-- forgotten_us: when it was taken back, or replaced by another. NULL: its records are there.
create table import_run (
    import_id bigint,
    kind varchar,
    path varchar,
    imported_us bigint,
    finished boolean,
    forgotten_us bigint
);

-- A row is a file that an import gave, also one that an earlier import had given.
create table import_given (
    import_id bigint,
    file_id bigint
);

update import_file set file_id = (hash(digest, kind, cluster) >> 1)::bigint;

create temp table earlier_import as
select *, dense_rank() over (order by imported_us, kind = 'backfill') as import_id from import_file;

insert into import_run
select import_id, case when count(distinct kind) = 1 then min(kind) else 'bundle' end, min(path), min(imported_us), true, null
from earlier_import
group by import_id;

insert into import_given
select distinct import_id, file_id from earlier_import;

drop table earlier_import;
