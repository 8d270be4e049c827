-- One row: the oldest day whose raw samples are not deleted.
select min(day_us) as day_us from sealed_day;
