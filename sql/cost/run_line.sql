-- Adds to line what single runs bring, at one instant each and so alike in every window. A row is paid by one and taken from
-- the other. part 3: counted as it stands.
insert into line by name
with priced as (
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
    from bit a
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
