-- A row of checkpoint_hour is an hour of a chain of runs that stops at regular times.
create or replace temp table checkpoint_hour as
select * from checkpoint_hour_row;

-- A row of checkpoint_minute is a minute of it in which its devices pause.
create or replace temp table checkpoint_minute as
select * from checkpoint_minute_row;
