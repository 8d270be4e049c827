-- A row of read_run is a run whose records were read.
create or replace temp table read_run as
select run_id from run_word
union
select run_id from hold
union
select run_id from observed_hold;
