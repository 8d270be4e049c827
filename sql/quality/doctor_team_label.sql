-- A row is a label that names teams by custom, on jobs whose team no rule decides: its share of their held time, the number of its
-- values, those with most time first, and the share of their time for which the value is another name than the team they have now.
with held as (
    select
        r.labels,
        t.team,
        sum((s.end_us - greatest(s.start_us, $since_us)) * s.share_num / s.share_den) as held_us
    from segment s
    join run r on r.run_id = s.run_id and r.cluster = s.cluster
    left join run_team t on t.run_id = s.run_id and t.cluster = s.cluster
    where s.end_us > $since_us and (coalesce(t.inferred, false) or coalesce(t.team, '__unallocated__') = '__unallocated__')
    group by all
),
named as (
    select k.key, trim(h.labels ->> ('$."' || k.key || '"')) as value, h.team, h.held_us
    from (select * from held where json_valid(labels)) h, unnest($keys::varchar[]) k (key)
),
valued as (
    select key, value, sum(held_us) as held_us, sum(held_us) filter (where value is distinct from team) as other_us
    from named
    where value <> '' and not starts_with(value, '__')
    group by key, value
)
select
    key,
    sum(held_us) / (select sum(held_us) from held) as share,
    coalesce(sum(other_us), 0) / (select sum(held_us) from held) as other_share,
    count(*) as values_count,
    list(value order by held_us desc, value) as names
from valued
group by key
order by list_position($keys::varchar[], key);
