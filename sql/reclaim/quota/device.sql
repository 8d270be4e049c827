-- A row of replay_taken is a device that a run of a list held, from when to when.
create or replace temp table replay_taken as
select run_id, device_id, min(start_us) as start_us, max(end_us) as end_us
from segment
where cluster = $cluster and list_contains($runs::bigint[], run_id) and start_us < $until_us and end_us > $from_us
group by run_id, device_id;
