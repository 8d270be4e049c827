-- A row is a span in which it is only estimated which GPUs of a node somebody held: none of them is known to have been free.
select distinct
    coalesce(d.node, d.gpu) as place,
    greatest(s.start_us, $from_us) as start_us,
    least(s.end_us, $until_us) as end_us
from segment s
join device d on d.cluster = s.cluster and d.device_id = s.device_id
where s.cluster = $cluster and s.estimated and s.start_us < $until_us and s.end_us > $from_us;
