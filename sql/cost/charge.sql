-- A row of booked is a group of charges: units are device microseconds times share, in parts of 1 / $scale; amount is
-- units times the price of priced_device. A dimension that was not asked for is NULL in every row.
create or replace temp table booked as
with run_time as (
    select
        s.cluster,
        s.run_id,
        p.kind_id,
        s.share_num,
        s.share_den,
        sum(least(s.end_us, p.end_us, $end_us) - greatest(s.start_us, p.start_us, $start_us)) as us,
        min(greatest(s.start_us, p.start_us, $start_us)) as first_us
    from segment s
    join priced_device p
        on p.device_id = s.device_id and p.profile is not distinct from s.profile and p.cluster = s.cluster
        and p.start_us < s.end_us and p.end_us > s.start_us
    where s.start_us < $end_us and s.end_us > $start_us
        and ($cluster is null or s.cluster = $cluster)
    group by all
),
owned as (
    select
        s.run_id is not null as held,
        case when s.run_id is null then '__platform__' else coalesce(t.team, '__unallocated__') end as owner,
        case when $by_team then owner end as team,
        case when $by_user then r.user_name end as user,
        case when $by_queue then r.queue end as queue,
        case when $by_namespace then r.namespace end as namespace,
        case when $by_account then r.account end as account,
        case when $by_job then r.job_id end as job,
        s.kind_id,
        s.us * s.share_num * ($scale // s.share_den) as units,
        s.first_us
    from run_time s
    left join run r on r.run_id = s.run_id and r.cluster = s.cluster
    left join run_team t on t.run_id = s.run_id and t.cluster = s.cluster
    where $teams is null or list_contains($teams::varchar[], owner)
),
summed as (
    select * exclude (owner, units, first_us), sum(units) as units, min(first_us) as first_us
    from owned
    group by all
)
select
    null::bigint as step,
    s.team,
    s.user,
    s.queue,
    s.namespace,
    s.account,
    s.job,
    k.gpu_model,
    k.mig_profile,
    k.slice,
    k.cluster,
    k.pool,
    null::varchar as bucket,
    null::integer as bucket_place,
    s.held,
    k.currency,
    k.lacks,
    min(s.first_us) as first_us,
    sum(s.units) as units,
    sum(s.units * k.price) as amount
from summed s
join kind k using (kind_id)
group by all;
