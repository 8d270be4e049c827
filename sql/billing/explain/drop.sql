-- The tables of an explanation go when it is told.
drop table if exists told_upto;

drop table if exists told_rest;

drop table if exists told_bucket;

drop table if exists told_line;

drop table if exists told_run;
