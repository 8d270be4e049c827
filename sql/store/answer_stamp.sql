-- A row is something that the sums of a window are made from: a rolled day and the name of its making, the making of a cluster's
-- prices and teams, or a cluster; or (owed) that an hour of the window waits to be computed.
select r.cluster, r.day_us, s.stamp, false as owed
from rolled_day r
join day_stamp s on s.cluster = r.cluster and s.day_us = r.day_us
where r.day_us >= $start_us and r.day_us < $end_us
union all
select cluster, null, stamp, false from day_stamp where day_us is null
union all
select distinct cluster, null, null, false from device
union all
select distinct cluster, null, null, true from dirty_hour where hour_us >= $start_us and hour_us < $end_us;
