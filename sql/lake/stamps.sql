-- A row is a computed day of a cluster with the name of the making of its sums: its hours have not changed since.
select r.cluster, r.day_us, s.stamp
from rolled_day r
join day_stamp s on s.cluster = r.cluster and s.day_us = r.day_us
where not exists (
    select 1
    from dirty_hour d
    where d.cluster = r.cluster and d.hour_us // 86400000000 * 86400000000 = r.day_us
);
