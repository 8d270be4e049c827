-- A row is a span in which a whole GPU of one model, in some pools, was free and in service.
select d.gpu, greatest(s.start_us, $from_us) as start_us, least(s.end_us, $until_us) as end_us
from segment s
join device d on d.cluster = s.cluster and d.device_id = s.device_id
where s.cluster = $cluster and s.start_us < $until_us and s.end_us > $from_us
    and s.run_id is null and s.free_bucket = 'schedulable' and s.share_num = s.share_den
    and d.gi < 0 and d.measured and d.model = $model and list_contains($pools, coalesce(d.pool, ''));
