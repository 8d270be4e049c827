-- A row is a finding about a GPU or slice and the run that held it when the condition began, or until five minutes before: what a
-- failure met. If several did, the one that began last.
with wanted as (
    select key, cluster, started_us, unnest(device_ids) as device_id
    from finding
    where list_contains($keys::varchar[], key) and subject_kind in ('gpu', 'slice')
),
held as (
    select w.key, s.cluster, s.run_id, s.start_us
    from wanted w
    join segment s
        on s.cluster = w.cluster and s.device_id = w.device_id
        and s.start_us < w.started_us and s.end_us >= w.started_us - 300000000
    where s.run_id is not null
)
select
    h.key,
    arg_max(coalesce(r.name, r.job_id), (h.start_us, h.run_id)) as name,
    arg_max(coalesce(t.team, '__unallocated__'), (h.start_us, h.run_id)) as team
from held h
join run r on r.cluster = h.cluster and r.run_id = h.run_id
left join run_team t on t.cluster = h.cluster and t.run_id = h.run_id
group by h.key
order by h.key;
