-- Marks the hours beside those of `labelled` as stale.
insert into dirty_hour
with stale as (
    select distinct c.cluster, l.hour_us + shift * 3600000000 as hour_us
    from labelled l
    join context c using (context_id)
    cross join (values (-1), (0), (1)) as around (shift)
)
select cluster, hour_us from stale
except
select cluster, hour_us from dirty_hour;

-- Lost hours whose samples are back are computed again.
delete from lost_hour
where exists (
    select 1
    from labelled l
    join context c using (context_id)
    where c.cluster = lost_hour.cluster and l.hour_us = lost_hour.hour_us
    group by l.hour_us
    having sum(l.samples) >= lost_hour.samples
);
