-- Keeps the segments of the time since $from_us; those that reach across it begin where they are stored to begin.
create or replace temp table new_segment as
select n.* replace (coalesce(s.start_us, n.start_us) as start_us)
from new_segment n
left join segment_at s
    on n.start_us < $from_us and s.device_id = n.device_id and s.run_id is not distinct from n.run_id
    and s.share_num = n.share_num and s.share_den = n.share_den and s.profile is not distinct from n.profile
    and s.free_bucket is not distinct from n.free_bucket and s.estimated = n.estimated and s.conflict = n.conflict
    and s.method is not distinct from n.method and s.split is not distinct from n.split
where n.end_us >= $from_us;
