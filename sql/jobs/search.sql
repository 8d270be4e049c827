-- A row is a team, user, job, node or GPU whose name contains $q: of each kind at most $limit, those that begin with it first,
-- then those seen last. With $teams, only what runs of these teams were and held, as of the time that they held it.
with mine as (
    select r.run_id, r.cluster, r.job_id, r.name, r.user_name, r.start_us, r.end_us, t.team
    from run r
    left join run_team t on t.run_id = r.run_id and t.cluster = r.cluster
    where $teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__'))
),
held as (
    select s.cluster, s.device_id, max(s.end_us) as last_us
    from segment s
    where $teams::varchar[] is not null
        and exists (select 1 from mine m where m.run_id = s.run_id and m.cluster = s.cluster)
    group by all
),
seen as (
    select d.cluster, d.node, d.gpu, d.model, d.last_us
    from device d
    where $teams::varchar[] is null
    union all
    select d.cluster, d.node, d.gpu, d.model, h.last_us
    from device d
    join held h on h.device_id = d.device_id and h.cluster = d.cluster
),
named as (
    select 'team' as kind, team as id, null::varchar as cluster, null::varchar as name, max(end_us) as last_us
    from mine
    where not starts_with(team, '__')
    group by all
    union all
    select 'user', user_name, null, null, max(end_us)
    from mine
    group by all
    union all
    select 'job', job_id, cluster, max_by(name, (start_us, name)), max(end_us)
    from mine
    group by all
    union all
    select 'node', node, cluster, max(model), max(last_us)
    from seen
    group by all
    union all
    select 'gpu', gpu, cluster, max(node), max(last_us)
    from seen
    group by all
)
select kind, id, cluster, name
from named
where id <> '' and (contains(lower(id), $q) or (kind = 'job' and contains(lower(name), $q)))
qualify
    row_number() over (partition by kind order by not starts_with(lower(id), $q), last_us desc, id, cluster)
    <= $limit
order by kind, not starts_with(lower(id), $q), last_us desc, id, cluster;
