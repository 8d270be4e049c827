-- A row of torn is a run that is over and the span in which something held it; failed: a node or a preemption ended it.
create or replace temp table torn as
select
    r.run_id,
    r.cluster,
    min(s.start_us) as start_us,
    max(s.end_us) as end_us,
    list_contains($failed::varchar[], lower(any_value(r.state))) as failed
from run r
join segment s on s.run_id = r.run_id and s.cluster = r.cluster
where r.ended and r.start_us < $end_us and r.end_us > $start_us - $before_us
group by r.run_id, r.cluster;

-- Adds to line what single runs bring, at one instant each and so alike in every window: the time that a run lacks to whole
-- increments of billing, at the last microsecond of the run; and productive minutes that were lost with it, each at its
-- start. A row is paid by one and taken from the other. part 3: counted as it stands.
insert into line by name
with increment as (
    select
        t.run_id,
        t.cluster,
        t.end_us,
        y.policy,
        y.day_us,
        (y.minimum_us - (t.end_us - t.start_us) % y.minimum_us) % y.minimum_us as pad_us
    from torn t
    join policy_day y on y.day_us = (t.end_us - 1) // 86400000000 * 86400000000
    where y.minimum_us > 0 and t.end_us - 1 >= $start_us and t.end_us - 1 < $end_us
),
padded as (
    select
        i.day_us,
        i.policy,
        i.run_id,
        i.cluster,
        s.device_id,
        s.profile,
        i.end_us - 1 as at_us,
        'minimum' as cause,
        i.pad_us * s.share_num::hugeint * ($scale // s.share_den) as units
    from increment i
    join segment s on s.run_id = i.run_id and s.cluster = i.cluster and s.end_us = i.end_us
    where i.pad_us > 0
),
lost as (
    select
        y.day_us,
        y.policy,
        t.run_id,
        t.cluster,
        s.device_id,
        s.profile,
        m.start_us as at_us,
        'lost_work' as cause,
        -(m.memory_roof_us + m.compute_us)::hugeint * s.share_num * ($scale // s.share_den) as units
    from torn t
    join segment s on s.run_id = t.run_id and s.cluster = t.cluster
    join device_minute m
        on m.device_id = s.device_id
        and m.cluster = s.cluster
        and m.start_us >= s.start_us
        and m.start_us < s.end_us
    join policy_day y on y.day_us = m.start_us // 86400000000 * 86400000000
    where t.failed and y.lost_work
        and m.hour_us >= $start_us // 3600000000 * 3600000000
        and m.start_us >= $start_us and m.start_us < $end_us
        and m.start_us >= t.end_us - y.checkpoint_us
),
priced as (
    select
        a.*,
        k.cluster as place_cluster,
        k.pool,
        k.gpu_model,
        k.mig_profile,
        k.slice,
        k.currency,
        k.lacks,
        a.units * (k.price // 10000) * coalesce(f.factor, 10000) as amount
    from (
        select * from padded
        union all
        select * from lost
    ) a
    join unit u
        on u.device_id = a.device_id and u.profile is not distinct from a.profile and u.cluster = a.cluster
    join priced_unit p on p.unit_id = u.unit_id and p.start_us <= a.at_us and p.end_us > a.at_us
    join kind k using (kind_id)
    left join run_factor f on f.run_id = a.run_id and f.policy = a.policy
)
select
    3 as part,
    p.day_us,
    'allocated' as kind,
    p.cause,
    false as external,
    coalesce(t.team, '__unallocated__') as owner,
    case when $by_user then r.user_name end as user,
    case when $by_queue then r.queue end as queue,
    case when $by_namespace then r.namespace end as namespace,
    case when $by_account then r.account end as account,
    case when $by_job then r.job_id end as job,
    p.place_cluster as cluster,
    p.pool,
    p.gpu_model,
    p.mig_profile,
    p.slice,
    p.currency,
    p.lacks,
    0 as units,
    p.amount
from priced p
join run r on r.run_id = p.run_id and r.cluster = p.cluster
left join run_team t on t.run_id = p.run_id and t.cluster = p.cluster
where p.amount <> 0
union all
select
    3,
    p.day_us,
    'platform',
    p.cause,
    false,
    '__platform__',
    null,
    null,
    null,
    null,
    null,
    p.place_cluster,
    p.pool,
    p.gpu_model,
    p.mig_profile,
    p.slice,
    p.currency,
    p.lacks,
    0,
    -p.amount
from priced p
where p.amount <> 0;
