-- Drops the temporary tables of an explanation.
drop table if exists line_upto;

drop table if exists charge_rest;

drop table if exists line_bucket;

drop table if exists charge_line;

drop table if exists charge_run;
