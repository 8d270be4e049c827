-- A row is an amount of a finding's idle time that others waited for: units / den microseconds of a GPU, of one price. At each
-- instant, of the devices of one kind that lie idle, as many are waited for as requests ask that free devices leave wanting:
-- each idle device counts for its part of them. What one request waits for is so never counted twice.
create or replace temp table contended_place as
select cluster, model, pool, profile, min(start_us) as start_us, max(end_us) as end_us
from contended_piece
group by all;

create or replace temp table contended_holder as
select distinct cluster, model, pool, profile, team
from contended_piece;

-- A row is a request that the holder's place could take as to kind and queue; those of the holder's own team are its own.
create or replace temp table contended_request as
select
    h.cluster, h.model, h.pool, h.profile, h.team, r.number, r.device_count,
    greatest(r.start_us, p.start_us) as start_us,
    least(r.end_us, p.end_us) as end_us
from contended_holder h
join contended_place p using (cluster, model, pool, profile)
join report_request r
    on r.cluster = h.cluster and coalesce(r.profile, '') = h.profile and r.start_us < p.end_us and r.end_us > p.start_us
join report_owner o on o.number = r.number
where o.team is distinct from h.team
    and (r.gpu_type is null or exists (select 1 from report_fit f where f.gpu_type = r.gpu_type and f.model = h.model))
    and (
        r.scheduler is distinct from 'slurm'
        or r.queue is null
        or h.pool = ''
        or list_contains(string_split(r.queue, ','), h.pool)
    );

-- A row is a moment at which devices of a place begin or end to lie idle in somebody's hands, or free.
create or replace temp table contended_change as
with kind as (
    select d.device_id, p.*
    from device d
    join contended_place p
        on p.cluster = d.cluster and p.model = coalesce(d.model, '') and p.pool = coalesce(d.pool, '')
        and p.profile = coalesce(d.profile, '')
),
span as (
    select
        k.* exclude (start_us, end_us, device_id),
        greatest(i.start_us, k.start_us) as start_us,
        least(i.end_us, k.end_us) as end_us,
        1 as idle,
        0 as free
    from kind k
    join idle_span i
        on i.cluster = k.cluster and i.device_id = k.device_id and i.start_us < k.end_us and i.end_us > k.start_us
        and i.hour_us >= $since_us
    union all
    select
        k.* exclude (start_us, end_us, device_id),
        greatest(s.start_us, k.start_us),
        least(s.end_us, k.end_us),
        0,
        1
    from kind k
    join segment s
        on s.cluster = k.cluster and s.device_id = k.device_id and s.start_us < k.end_us and s.end_us > k.start_us
    where s.run_id is null and coalesce(s.free_bucket, 'schedulable') = 'schedulable'
)
select cluster, model, pool, profile, start_us as at_us, idle, free
from span
union all
select cluster, model, pool, profile, end_us, -idle, -free
from span;

-- A row is a span of a place, as a holder of it sees it, in which nothing changes.
create or replace temp table contended_span as
with edge as (
    select h.*, c.at_us
    from contended_holder h
    join contended_change c using (cluster, model, pool, profile)
    union
    select cluster, model, pool, profile, team, start_us
    from contended_request
    union
    select cluster, model, pool, profile, team, end_us
    from contended_request
),
known as (
    select
        e.*,
        coalesce(sum(c.idle), 0) as idle,
        coalesce(sum(c.free), 0) as free
    from edge e
    left join (
        select cluster, model, pool, profile, at_us, sum(idle) as idle, sum(free) as free
        from contended_change
        group by all
    ) c using (cluster, model, pool, profile, at_us)
    group by all
),
running as (
    select
        * exclude (idle, free),
        lead(at_us) over at_time as until_us,
        sum(idle) over at_time as idle,
        sum(free) over at_time as free
    from known
    window at_time as (partition by cluster, model, pool, profile, team order by at_us)
)
select row_number() over () as span, *
from running
where until_us > at_us and idle > 0;

-- A row is a request that waits throughout a span and would fit in what lies idle and free there.
create or replace temp table contended_wait as
select s.span, r.number, r.device_count
from contended_span s
join contended_request r
    on r.cluster = s.cluster and r.model = s.model and r.pool = s.pool and r.profile = s.profile and r.team = s.team
    and r.start_us <= s.at_us and r.end_us >= s.until_us and r.device_count <= s.idle + s.free;

with asked_for as (
    select span, sum(device_count) as devices
    from contended_wait
    group by span
),
wanted as (
    select s.*, least(s.idle, greatest(a.devices - s.free, 0)) as wanted
    from contended_span s
    join asked_for a using (span)
),
part as (
    select
        p.key,
        w.span,
        p.device_id,
        p.share_num,
        p.share_den,
        p.priced_profile,
        p.cluster,
        greatest(p.start_us, w.at_us) as start_us,
        least(p.end_us, w.until_us) as end_us,
        w.wanted,
        w.idle
    from contended_piece p
    join wanted w
        on w.cluster = p.cluster and w.model = p.model and w.pool = p.pool and w.profile = p.profile and w.team = p.team
        and w.at_us < p.end_us and w.until_us > p.start_us
    where w.wanted > 0
),
asked as (
    select p.key, count(distinct w.number) as requests, max(w.device_count) as device_count_max
    from part p
    join contended_wait w using (span)
    group by p.key
),
priced as (
    select
        p.key,
        x.usd_per_gpu_hour,
        x.currency,
        p.idle * p.share_den as den,
        sum(
            (least(p.end_us, coalesce(x.end_us, p.end_us)) - greatest(p.start_us, coalesce(x.start_us, p.start_us)))::hugeint
            * p.wanted::hugeint * p.share_num
        ) as units
    from part p
    left join device_price x
        on x.cluster = p.cluster and x.device_id = p.device_id and x.profile is not distinct from p.priced_profile
        and x.start_us < p.end_us and x.end_us > p.start_us
    group by p.key, x.usd_per_gpu_hour, x.currency, p.idle * p.share_den
)
select p.key, p.usd_per_gpu_hour, p.currency, p.units::varchar as units, p.den::varchar as den, a.requests, a.device_count_max
from priced p
join asked a using (key)
order by p.key, p.usd_per_gpu_hour, p.currency, p.den;
