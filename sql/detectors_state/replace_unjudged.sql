-- Notes what looked busy and could not be judged for lack of SM_ACTIVE, for the chains just judged.
delete from unjudged
where cluster = $cluster and detector = $detector and run_id in (select run_id from job_chain);

insert into unjudged
select $detector, $cluster, h.run_id, w.device_id, min(w.start_us), max(w.start_us) + 300000000, 'SM_ACTIVE missing'
from device_window w
join held h on h.device_id = w.device_id and h.start_us = w.segment_start_us
where w.cluster = $cluster
    and (w.gpu_util_ratio >= $busy_ratio_min or w.gr_engine_ratio >= $busy_ratio_min)
    and w.sm_active_ratio is null
group by h.run_id, w.device_id
having count(*) >= $windows_min
order by h.run_id, w.device_id;
