-- Drops the working tables of jobs/run.sql.
drop table if exists shown_run;
drop table if exists shown_segment;
