-- Marks the hours of a window in which the cluster has segments.
insert into dirty_hour
select distinct $cluster, h.hour_us
from (
    select unnest(range(min(start_us) // 3600000000, (max(end_us) + 3599999999) // 3600000000)) * 3600000000 as hour_us
    from segment
    where cluster = $cluster
) h
where ($since_us is null or h.hour_us + 3600000000 > $since_us)
    and ($until_us is null or h.hour_us < $until_us)
    and not exists (select 1 from dirty_hour d where d.cluster = $cluster and d.hour_us = h.hour_us);
