-- A row is an owner of held time without a team (lacking), or with one that no rule decides (inferred); all_held_us is the
-- held time of all owners.
with held as (
    select
        r.cluster,
        r.scheduler,
        r.account,
        r.namespace,
        r.user_name,
        r.queue,
        t.team,
        coalesce(t.team, '__unallocated__') = '__unallocated__' as lacking,
        coalesce(t.inferred, false) as inferred,
        min(greatest(s.start_us, $since_us)) as begun_us,
        sum((s.end_us - greatest(s.start_us, $since_us)) * s.share_num / s.share_den) as held_us
    from segment s
    join run r on r.run_id = s.run_id and r.cluster = s.cluster
    left join run_team t on t.run_id = s.run_id and t.cluster = s.cluster
    where s.end_us > $since_us
    group by all
)
select cluster, scheduler, account, namespace, user_name, queue, team, lacking, inferred, begun_us, held_us, sum(held_us) over () as all_held_us
from held
qualify lacking or inferred
order by held_us desc, cluster, scheduler, account, namespace, user_name, queue;
