-- A row of booked is a group of charges: units are device microseconds times share, in parts of 1 / $scale; amount is
-- units times the price of its kind. A dimension that was not asked for is NULL in every row. shown: the row filter lets it
-- through; what it hides is rounded with the rest, so that everybody reads the same numbers.
create or replace temp table booked as
with charged as (
    select
        b.cluster,
        b.run_id,
        p.kind_id,
        b.share_num,
        b.share_den,
        b.first_us,
        b.charged_us as us
    from book_day b
    join whole_day w on w.cluster = b.cluster and w.day_us = b.day_us
    join priced_unit p on p.unit_id = b.class_id and p.start_us <= b.day_us and p.end_us > b.day_us
    where b.day_us >= $start_us and b.day_us < $end_us and b.charged_us > 0
    union all
    select
        s.cluster,
        s.run_id,
        p.kind_id,
        s.share_num,
        s.share_den,
        greatest(s.start_us, p.start_us, f.from_us),
        least(s.end_us, p.end_us, f.to_us) - greatest(s.start_us, p.start_us, f.from_us)
    from segment s
    join fine_span f on f.cluster = s.cluster and s.start_us < f.to_us and s.end_us > f.from_us
    join unit u on u.device_id = s.device_id and u.profile is not distinct from s.profile and u.cluster = s.cluster
    join priced_unit p on p.unit_id = u.unit_id
    where greatest(s.start_us, p.start_us, f.from_us) < least(s.end_us, p.end_us, f.to_us)
),
owned as (
    select
        s.run_id is not null as held,
        case when s.run_id is null then '__platform__' else coalesce(t.team, '__unallocated__') end as owner,
        coalesce(list_contains($teams::varchar[], owner), true) as shown,
        case when $by_team then owner end as team,
        case when $by_user then r.user_name end as user,
        case when $by_queue then r.queue end as queue,
        case when $by_namespace then r.namespace end as namespace,
        case when $by_account then r.account end as account,
        case when $by_job then r.job_id end as job,
        s.kind_id,
        s.share_num,
        s.share_den,
        s.us,
        s.first_us
    from charged s
    left join run r on r.run_id = s.run_id and r.cluster = s.cluster
    left join run_team t on t.run_id = s.run_id and t.cluster = s.cluster
),
summed as (
    select * exclude (owner, us, first_us), sum(us) as us, min(first_us) as first_us
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
    s.shown,
    k.currency,
    k.lacks,
    min(s.first_us) as first_us,
    sum(s.us * s.share_num * ($scale // s.share_den)) as units,
    sum(s.us * s.share_num * ($scale // s.share_den) * k.price) as amount
from summed s
join kind k using (kind_id)
group by all;
