-- A row is an amount of a finding's idle time that others waited for: units / den microseconds of a GPU, of one price. At each
-- instant, the contended devices of a kind are the requested ones beyond those that free devices could serve. They are
-- spread evenly over the idle devices, in 720720ths, so that no request counts twice. Parts are summed over time once for
-- all devices of a kind; an idle span takes the difference between its ends.
create or replace temp table contended_asker as
select
    r.*,
    case
        when o.team <> '__unallocated__' then o.team
        else coalesce('user ' || r.user_name, 'job ' || r.job_id)
    end as asker
from report_request r
join report_owner o using (number);

-- Holders without requests of their own see the same requests, so they are merged.
update contended_piece
set team = ''
where team not in (select asker from contended_asker);

create or replace temp table contended_place as
select cluster, model, pool, profile, min(start_us) as start_us, max(end_us) as end_us
from contended_piece
group by all;

create or replace temp table contended_holder as
select distinct cluster, model, pool, profile, team
from contended_piece;

-- A row is a request that the holder's place could take as to kind and queue; those of the holder's own team (or user, where
-- no team is known) are its own.
create or replace temp table contended_request as
select
    h.cluster,
    h.model,
    h.pool,
    h.profile,
    h.team,
    r.number,
    r.device_count,
    greatest(r.start_us, p.start_us) as start_us,
    least(r.end_us, p.end_us) as end_us
from contended_holder h
join contended_place p using (cluster, model, pool, profile)
join contended_asker r
    on r.cluster = h.cluster and coalesce(r.profile, '') = h.profile and r.start_us < p.end_us and r.end_us > p.start_us
where r.asker <> h.team
    and (r.gpu_type is null or exists (select 1 from report_fit f where f.gpu_type = r.gpu_type and f.model = h.model))
    and (
        r.scheduler is distinct from 'slurm'
        or r.queue is null
        or h.pool = ''
        or list_contains(string_split(r.queue, ','), h.pool)
    );

-- A row is an instant at which devices of a place become, or stop being, held idle or free.
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
        and i.hour_us >= $since_us and not i.free
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

-- A row is an instant at which the requests for a holder's place change.
create or replace temp table contended_turn as
select cluster, model, pool, profile, team, start_us as at_us
from contended_request
union
select cluster, model, pool, profile, team, end_us
from contended_request;

-- A row is the number of devices requested from such an instant on, by requests that fit into a number of devices.
create or replace temp table contended_demand as
with size as (
    select distinct cluster, model, pool, profile, team, device_count
    from contended_request
),
change as (
    select cluster, model, pool, profile, team, device_count, at_us, sum(devices) as devices
    from (
        select cluster, model, pool, profile, team, device_count, start_us as at_us, device_count as devices
        from contended_request
        union all
        select cluster, model, pool, profile, team, device_count, end_us, -device_count
        from contended_request
    )
    group by all
),
of_size as (
    select
        t.*,
        s.device_count,
        coalesce(
            sum(c.devices) over (
                partition by t.cluster, t.model, t.pool, t.profile, t.team, s.device_count order by t.at_us
            ),
            0
        ) as devices
    from contended_turn t
    join size s using (cluster, model, pool, profile, team)
    left join change c using (cluster, model, pool, profile, team, device_count, at_us)
)
select
    * exclude (devices),
    sum(devices) over by_size as devices,
    lead(device_count, 1, 2147483647) over by_size as next_count
from of_size
window by_size as (partition by cluster, model, pool, profile, team, at_us order by device_count);

-- A row is an instant at which a holder's idle devices, free devices or waiting requests change, with the new numbers.
create or replace temp table contended_span as
with edge as (
    select h.*, c.at_us
    from contended_holder h
    join contended_change c using (cluster, model, pool, profile)
    union
    select cluster, model, pool, profile, team, at_us
    from contended_turn
    union
    select cluster, model, pool, profile, team, start_us
    from contended_piece
    union
    select cluster, model, pool, profile, team, end_us
    from contended_piece
),
moved as (
    select cluster, model, pool, profile, at_us, sum(idle) as idle, sum(free) as free
    from contended_change
    group by all
),
running as (
    select
        e.*,
        lead(e.at_us) over later as until_us,
        coalesce(sum(m.idle) over later, 0) as idle,
        coalesce(sum(m.free) over later, 0) as free,
        max(t.at_us) over later as turn_us
    from edge e
    left join moved m using (cluster, model, pool, profile, at_us)
    left join contended_turn t using (cluster, model, pool, profile, team, at_us)
    window later as (partition by e.cluster, e.model, e.pool, e.profile, e.team order by e.at_us)
)
select
    r.*,
    least(r.idle, greatest(coalesce(d.devices, 0) - r.free, 0))::bigint as wanted
from running r
left join contended_demand d
    on d.cluster = r.cluster and d.model = r.model and d.pool = r.pool and d.profile = r.profile and d.team = r.team
    and d.at_us = r.turn_us and d.device_count <= r.idle + r.free and d.next_count > r.idle + r.free;

-- A row is a request that would have fitted in some hour in which it waited.
create or replace temp table contended_fit as
with room as (
    select cluster, model, pool, profile, team, at_us // 3600000000 as hour, max(idle + free) as devices
    from contended_span
    where wanted > 0
    group by all
),
touched as (
    select *, unnest(range(start_us // 3600000000, (end_us - 1) // 3600000000 + 1)) as hour
    from contended_request
)
select distinct t.* exclude (hour)
from touched t
join room m using (cluster, model, pool, profile, team, hour)
where m.devices >= t.device_count;

with so_far as (
    select
        cluster,
        model,
        pool,
        profile,
        team,
        at_us,
        coalesce(
            sum(case when idle > 0 then (until_us - at_us)::hugeint * wanted * 720720 // idle::hugeint end) over (
                partition by cluster, model, pool, profile, team
                order by at_us
                rows between unbounded preceding and 1 preceding
            ),
            0
        ) as parts
    from contended_span
),
part as (
    select p.*, e.parts - b.parts as parts
    from contended_piece p
    join so_far b
        on b.cluster = p.cluster and b.model = p.model and b.pool = p.pool and b.profile = p.profile and b.team = p.team
        and b.at_us = p.start_us
    join so_far e
        on e.cluster = p.cluster and e.model = p.model and e.pool = p.pool and e.profile = p.profile and e.team = p.team
        and e.at_us = p.end_us
    where e.parts > b.parts
),
asked as (
    select p.key, count(distinct f.number) as requests, max(f.device_count) as device_count_max
    from (
        select distinct key, cluster, model, pool, profile, team, start_us, end_us
        from part
    ) p
    join contended_fit f
        on f.cluster = p.cluster and f.model = p.model and f.pool = p.pool and f.profile = p.profile and f.team = p.team
        and f.start_us < p.end_us and f.end_us > p.start_us
    group by p.key
)
select
    p.key,
    p.usd_per_gpu_hour,
    p.currency,
    sum(p.parts * p.share_num)::varchar as units,
    (p.share_den::hugeint * 720720)::varchar as den,
    any_value(a.requests) as requests,
    any_value(a.device_count_max) as device_count_max
from part p
join asked a using (key)
group by p.key, p.usd_per_gpu_hour, p.currency, p.share_den
order by p.key, p.usd_per_gpu_hour, p.currency, p.share_den;
