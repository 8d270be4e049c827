-- A row of contended_piece is a span at one price in which a device of a finding was held idle by its job: with the kind of place
-- of the device, its share, and the team that holds it, or the user if the team is not known.
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
    case
        when coalesce(t.team, '__unallocated__') <> '__unallocated__' then t.team
        else coalesce('user ' || r.user_name, 'job ' || r.job_id)
    end as team,
    s.share_num,
    s.share_den,
    a.device_id,
    x.usd_per_gpu_hour,
    x.currency,
    greatest(i.start_us, s.start_us, x.start_us) as start_us,
    least(i.end_us, s.end_us, x.end_us) as end_us
from asked a
join idle_span i
    on i.cluster = a.cluster and i.device_id = a.device_id and i.start_us < a.last_seen_us and i.end_us > a.started_us
join segment s
    on s.cluster = i.cluster and s.device_id = i.device_id and s.start_us < i.end_us and s.end_us > i.start_us
join run r on r.run_id = s.run_id and r.cluster = s.cluster and r.job_id = a.job_id
left join run_team t on t.run_id = s.run_id and t.cluster = s.cluster
join device d on d.device_id = a.device_id and d.cluster = a.cluster
join device_price x
    on x.cluster = a.cluster and x.device_id = a.device_id and x.profile is not distinct from s.profile
    and x.start_us < least(i.end_us, s.end_us) and x.end_us > greatest(i.start_us, s.start_us)
where i.hour_us >= $since_us and not i.free;
