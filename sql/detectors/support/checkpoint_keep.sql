-- A row of checkpoint_hour is an hour of a chain of runs that stops at regular times.
create or replace temp table checkpoint_hour as
select c.chain, r.* exclude (number)
from checkpoint_hour_row r
join checkpoint_candidate c using (number);

-- A row of checkpoint_minute is a minute of it in which its devices pause.
create or replace temp table checkpoint_minute as
select c.chain, r.* exclude (number)
from checkpoint_minute_row r
join checkpoint_candidate c using (number);

-- A row of checkpoint_earlier is such a minute before the first hour (hour_us) in which the chain was found to stop at regular times.
create or replace temp table checkpoint_earlier as
select c.chain, r.* exclude (number)
from checkpoint_earlier_row r
join checkpoint_candidate c using (number);

drop table checkpoint_candidate;

drop table checkpoint_known;

drop table checkpoint_held;

drop table if exists checkpoint_pausing;
