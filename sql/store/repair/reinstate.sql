-- Takes back that a day was retired: its new samples count again. Hours whose samples are gone keep their ledger.
insert into lost_hour
select cluster, hour_us, recorded
from lost_rows
where hour_us >= $day_us and hour_us < $day_us + 86400000000;

insert into sealed_day
select $day_us, count(*), count(*) <> count(distinct (device_id, observed_us))
from sample
where observed_us >= $day_us and observed_us < $day_us + 86400000000;

-- Hours with all their samples are computed again, in case they waited when the day was retired.
insert into dirty_hour
select distinct c.cluster, s.hour_us
from context_span s
join context c using (context_id)
where s.hour_us >= $day_us and s.hour_us < $day_us + 86400000000
    and (c.cluster, s.hour_us) not in (select (cluster, hour_us) from lost_hour)
except
select cluster, hour_us from dirty_hour;
