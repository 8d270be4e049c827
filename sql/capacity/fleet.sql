-- A row is a cluster, pool and GPU model, whole GPUs or MIG slices: how many there are at the last instant of the ledger, how
-- many report now, and what the held ones did in the minutes before. Devices shared by several owners count in parts.
with last_sample as (
    select device_id, max(observed_us) as last_us
    from sample_tail
    group by device_id
),
seen as (
    select
        d.*,
        greatest(d.last_us, t.last_us) as newest_us,
        greatest($silence_us_min, 3 * d.last_interval_us) as silence_us
    from device d
    left join last_sample t using (device_id)
),
-- Unheld parts of these GPUs are what no slice covers: no GPU of its own, also while it is out of service.
partitioned as (
    select distinct parent_id as device_id from device where gi >= 0
),
standing as (
    select s.cluster, s.device_id, s.start_us, s.end_us, s.run_id, s.share_num / s.share_den as share
    from segment s
    join cluster_end e using (cluster)
    where s.start_us < e.as_of_us and s.end_us >= e.as_of_us
        and (s.run_id is not null or s.share_num = s.share_den or s.device_id not in (select device_id from partitioned))
        and s.free_bucket is distinct from 'mig_remainder'
),
-- A GPU that only its scheduler knows is there as long as the scheduler lists its node.
listed as (
    select n.cluster, n.node
    from node n
    join (
        select cluster, scheduler, max(observed_us) as newest_us from node group by cluster, scheduler
    ) s on s.cluster = n.cluster and s.scheduler = n.scheduler
    where coalesce(n.observed_us >= s.newest_us - $stale_us, true)
    group by n.cluster, n.node
),
only_listed as (
    select d.cluster, d.device_id
    from device d
    join listed l on l.cluster = d.cluster and l.node = d.node
    where not d.measured and d.device_id = d.parent_id
        and d.device_id not in (select device_id from standing)
        and not exists (select 1 from device s where s.parent_id = d.device_id and s.device_id <> d.device_id)
),
present as (
    select * from standing
    union all
    select cluster, device_id, null, null, null, 1 from only_listed
),
weighed as (
    select
        p.*,
        p.share / sum(p.share) over (partition by p.device_id) as part,
        p.run_id is not null as held,
        coalesce(t.team, '__unallocated__') as team
    from present p
    left join run_team t on t.run_id = p.run_id and t.cluster = p.cluster
),
asked as (
    select *
    from weighed
    where $teams::varchar[] is null or (held and list_contains($teams, team))
),
-- The minutes of a device belong to all owners who share it, in their parts. Without SM readings it is unknown whether a
-- minute worked; without pipe and DRAM readings, how well. Idle time is known.
minute as (
    select
        m.cluster,
        m.device_id,
        m.start_us,
        m.below_roof_us + m.memory_roof_us + m.compute_us as worked_us,
        m.communication_us + m.stalled_us + worked_us as busy_us,
        case
            when m.unobserved_us = 0 or worked_us > 0 then m.gap_us + busy_us
            -- Busy with idle SMs: the rest of its busy time is active too; only its roofline is unknown.
            when busy_us > 0 then m.gap_us + busy_us + m.unobserved_us
        end as active_us,
        m.unobserved_us = 0 or worked_us > 0 as known,
        case when known then m.memory_roof_us + m.compute_us end as effective_us,
        case when known then m.unobserved_us + m.hoarded_us + m.gap_us + busy_us else 0 end as known_us
    from device_minute m
    join cluster_end e using (cluster)
    where m.hour_us >= $since_hour_us
        and m.start_us >= e.as_of_us - $recent_us and m.start_us < e.as_of_us
),
owned as (
    select
        s.device_id,
        s.start_us,
        s.end_us,
        s.share_num / s.share_den as share,
        s.run_id is not null and ($teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__')))
            as asked,
        s.free_bucket
    from segment s
    join cluster_end e using (cluster)
    left join run_team t on t.run_id = s.run_id and t.cluster = s.cluster
    where s.start_us < e.as_of_us and s.end_us > e.as_of_us - $recent_us
        and (s.run_id is not null or s.share_num = s.share_den or s.device_id not in (select device_id from partitioned))
        and s.free_bucket is distinct from 'mig_remainder'
),
worked as (
    select
        m.cluster,
        m.device_id,
        m.active_us * (sum(o.share) filter (where o.asked)) / sum(o.share) / $recent_us as active,
        m.effective_us * (sum(o.share) filter (where o.asked)) / sum(o.share) / $recent_us as effective,
        m.known_us * (sum(o.share) filter (where o.asked)) / sum(o.share) / $recent_us as effective_known
    from minute m
    join owned o on o.device_id = m.device_id and m.start_us >= o.start_us and m.start_us < o.end_us
    group by m.cluster, m.device_id, m.start_us, m.active_us, m.effective_us, m.known_us
),
counted as (
    select
        cluster,
        device_id,
        sum(part) as total,
        sum(part) filter (where held) as allocated,
        null::double as active,
        null::double as effective,
        null::double as effective_known
    from asked
    group by cluster, device_id
    union all
    select cluster, device_id, null, null, sum(active), sum(effective), sum(effective_known)
    from worked
    group by cluster, device_id
)
select
    c.cluster,
    d.pool,
    d.model as gpu_model,
    -- A slice that only its scheduler reports has no GPU instance and a profile; which GPU it is on is not known.
    d.gi >= 0 or d.profile is not null as slice,
    any_value(e.as_of_us) as as_of_us,
    coalesce(sum(c.total), 0)::double as total,
    coalesce(
        sum(c.total) filter (
            where d.newest_us >= greatest(e.newest_us, $now_us) - d.silence_us
        ),
        0
    )::double as reporting,
    coalesce(sum(c.allocated), 0)::double as allocated,
    -- What is held and was not measured is not known to work, nor to rest.
    case when sum(c.allocated) > 0 then sum(c.active) else 0 end::double as active,
    case when sum(c.allocated) > 0 then sum(c.effective) else 0 end::double as effective,
    case when sum(c.allocated) > 0 then coalesce(sum(c.effective_known), 0) else 0 end::double as effective_known,
    count(distinct d.parent_id) filter (where c.total is not null and d.gi >= 0) as boards
from counted c
join seen d on d.device_id = c.device_id and d.cluster = c.cluster
join cluster_end e on e.cluster = c.cluster
group by c.cluster, d.pool, d.model, slice
order by c.cluster, d.pool, d.model, slice;
