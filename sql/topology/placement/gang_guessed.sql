-- A row is a span in which the held GPUs of a node are only estimated, so none of its GPUs is known to be free.
select distinct
    coalesce(d.node, d.gpu) as place,
    greatest(s.start_us, $from_us) as start_us,
    least(s.end_us, $until_us) as end_us
from segment s
join device d on d.cluster = s.cluster and d.device_id = s.device_id
where s.cluster = $cluster and s.estimated and s.start_us < $until_us and s.end_us > $from_us;
