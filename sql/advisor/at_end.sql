-- A row of span_at_end is a device that was there at the end of the window: its last time of capacity. What was gone an hour before
-- that is no capacity of tomorrow, and of a repartitioned GPU only the newest layout counts.
create or replace temp table span_at_end as
select c.cluster, c.device_id, c.share_num, c.share_den, d.pool, d.model, d.node, d.profile
from capacity c
join device d on d.device_id = c.device_id and d.cluster = c.cluster
where c.end_us > $start_us and c.start_us < $end_us and ($cluster is null or c.cluster = $cluster)
    and c.end_us
    >= least($end_us, (select max(end_us) from capacity k where k.cluster = c.cluster)) - 3600000000
qualify least(c.end_us, $end_us) = max(least(c.end_us, $end_us)) over (partition by c.cluster, d.gpu);
