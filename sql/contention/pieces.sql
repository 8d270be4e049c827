-- A row of contended_piece is a piece of time in which a device of one of some findings lay idle in the hands of its job: with
-- the kind of place that the device is, the team that holds it, and its share.
create or replace temp table contended_piece as
with asked as (
    select key, cluster, job_id, started_us, last_seen_us, unnest(device_ids) as device_id
    from finding
    where detector = 'idle-hoarding' and list_contains($keys::varchar[], key)
)
select
    a.key,
    a.cluster,
    coalesce(d.model, '') as model,
    coalesce(d.pool, '') as pool,
    coalesce(d.profile, '') as profile,
    coalesce(t.team, '__unallocated__') as team,
    s.share_num,
    s.share_den,
    s.profile as priced_profile,
    a.device_id,
    greatest(i.start_us, s.start_us) as start_us,
    least(i.end_us, s.end_us) as end_us
from asked a
join idle_span i
    on i.cluster = a.cluster and i.device_id = a.device_id and i.start_us < a.last_seen_us and i.end_us > a.started_us
join segment s
    on s.cluster = i.cluster and s.device_id = i.device_id and s.start_us < i.end_us and s.end_us > i.start_us
join run r on r.run_id = s.run_id and r.cluster = s.cluster and r.job_id = a.job_id
left join run_team t on t.run_id = s.run_id and t.cluster = s.cluster
join device d on d.device_id = a.device_id and d.cluster = a.cluster
where i.hour_us >= $since_us;
