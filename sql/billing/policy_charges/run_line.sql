-- Adds the adjustments of single runs to line. Each has one instant, so it is the same in every window. What a team pays is
-- taken from the platform, and the reverse. part 3: always counted.
create or replace temp table run_sum as
with placed as (
    select
        a.day_us,
        a.policy,
        a.run_id,
        a.cause,
        p.kind_id,
        sum(a.units) as units
    from run_adjustment a
    join unit u on u.device_id = a.device_id and u.profile is not distinct from a.profile
    join priced_unit p on p.unit_id = u.unit_id and p.start_us <= a.at_us and p.end_us > a.at_us
    group by all
),
-- Numbers group faster than words.
owned as (
    select
        a.day_us,
        a.cause,
        a.kind_id,
        coalesce(t.team, '__unallocated__') as owner,
        case when $by_user then r.user_name end as user,
        case when $by_queue then r.queue end as queue,
        case when $by_namespace then r.namespace end as namespace,
        case when $by_account then r.account end as account,
        case when $by_job then r.job_id end as job,
        w.words,
        sum(a.units * coalesce(f.factor * $factor_parts // 10000, $factor_parts)) as parts
    from placed a
    left join (select * from run where $by_run) r on r.run_id = a.run_id
    left join run_word w on w.run_id = a.run_id
    left join run_team t on t.run_id = a.run_id
    left join run_factor f on f.run_id = a.run_id and f.policy = a.policy
    group by all
)
select
    o.* exclude (kind_id, parts),
    k.cluster,
    k.pool,
    k.gpu_model,
    k.mig_profile,
    k.slice,
    k.devices,
    k.currency,
    k.lacks,
    o.parts * (k.price // $factor_parts) as amount
from owned o
join kind k using (kind_id);

insert into line by name
select *, 3 as part, 'allocated' as kind, false as external, 0 as units
from run_sum
where amount <> 0
union all by name
select
    3 as part,
    'platform' as kind,
    false as external,
    '__platform__' as owner,
    0 as units,
    day_us,
    cause,
    cluster,
    pool,
    gpu_model,
    mig_profile,
    slice,
    devices,
    currency,
    lacks,
    -amount as amount
from run_sum
where amount <> 0;

drop table run_sum;
