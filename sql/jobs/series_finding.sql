-- A row is the finding of one key, with what its chart needs.
select f.detector, f.cluster, f.job_id, f.started_us, f.last_seen_us, f.device_ids, f.rule_version, f.evidence
from finding f
left join run_team t on t.run_id = f.run_id and t.cluster = f.cluster
where f.key = $key and ($teams::varchar[] is null or list_contains($teams, coalesce(f.team, t.team, case when f.run_id is null then '__platform__' else '__unallocated__' end)));
