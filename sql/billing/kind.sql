-- A row of whole_day is a day of a cluster that its rows of $rolled (book_day or sums of it) tell: no hour of it waits to be
-- computed, no price changes within it, and what is asked for needs no hour.
create or replace temp table whole_day as
select r.cluster, r.day_us
from rolled_day r
where r.day_us >= $start_us and r.day_us + 86400000000 <= $end_us
    and ($cluster is null or r.cluster = $cluster)
    and ($step_us is null or $step_us = 86400000000)
    and not $by_device
    and not exists (
        select 1 from dirty_hour h where h.cluster = r.cluster and h.hour_us // 86400000000 = r.day_us // 86400000000
    )
    and not exists (
        select 1
        from class_price p
        where p.cluster = r.cluster and p.start_us > r.day_us and p.start_us < r.day_us + 86400000000
    );

-- A row of fine_span is a part of the window between the whole days of a cluster; of one UTC day where days are asked for.
create or replace temp table fine_span as
with between_days as (
select *
from (
    select
        cluster,
        day_us + 86400000000 as from_us,
        lead(day_us, 1, $end_us) over (partition by cluster order by day_us) as to_us
    from (
        select cluster, day_us from whole_day
        union all
        select distinct cluster, $start_us - 86400000000 from device where $cluster is null or cluster = $cluster
    )
)
where from_us < to_us
)
select * from between_days where not $by_period
union all
select cluster, greatest(from_us, day_us), least(to_us, day_us + 86400000000)
from (
    select *, unnest(range(from_us // 86400000000, (to_us + 86399999999) // 86400000000)) * 86400000000 as day_us
    from between_days
    where $by_period
);

-- The longest time that no fine span touches: most segments lie within and need not be looked at. As variables these are
-- constants of the statements that follow, and row groups are passed over.
set variable quiet = (
    with edge as (
        select
            from_us,
            max(to_us) over (order by from_us, to_us rows between unbounded preceding and 1 preceding) as before_us
        from fine_span
    )
    select arg_max({'from_us': before_us, 'until_us': from_us}, (from_us - before_us, from_us))
    from edge
    where from_us > before_us
);

-- Before the first and behind the last fine span nothing needs to be looked at either.
set variable fine_from_us = (select min(from_us) from fine_span);

set variable fine_until_us = (select max(to_us) from fine_span);

set variable quiet_from_us = coalesce(getvariable('quiet').from_us, 0);

set variable quiet_until_us = coalesce(getvariable('quiet').until_us, 0);

-- A row of unit is a device (with the MIG profile it had) and the number under which it is counted: its class; a slice of
-- its own where slices are asked for. What appeared since the last pricing has no class yet.
create or replace temp table unit as
with known as (
    select cluster, device_id, profile, class_id
    from device_class
    where $cluster is null or cluster = $cluster
    union all
    select distinct s.cluster, s.device_id, s.profile, null
    from segment s
    where s.start_us < getvariable('fine_until_us') and s.end_us > getvariable('fine_from_us')
        and (s.start_us < getvariable('quiet_from_us') or s.end_us > getvariable('quiet_until_us'))
        and ($cluster is null or s.cluster = $cluster)
        and not exists (
        select 1
        from device_class c
        where c.device_id = s.device_id and c.profile is not distinct from s.profile and c.cluster = s.cluster
    )
)
select
    k.*,
    -- A slice that only its scheduler reports has a name of its own: which GPU it is on is not known.
    case
        when $by_slice and d.gi >= 0 then d.gpu || '/GI-' || d.gi
        when $by_slice and d.profile is not null then d.gpu
    end as slice,
    case
        when $by_node and $by_gpu then json_array(d.node, d.gpu)::varchar
        when $by_node then json_array(d.node)::varchar
        when $by_gpu then json_array(d.gpu)::varchar
    end as devices,
    case
        when class_id is null then (hash(k.cluster, k.device_id, k.profile) >> 1)::bigint
        when slice is not null or $by_device then (hash(class_id, k.device_id) >> 1)::bigint
        else class_id
    end as unit_id
from known k
left join device d on d.device_id = k.device_id and d.cluster = k.cluster;

-- A row of unit_stay is a unit and a span in which its GPU was on one node, where nodes are asked for. Others are on one node always.
create or replace temp table unit_stay as
select
    u.unit_id,
    t.from_us,
    t.to_us,
    case when $by_gpu then json_array(t.node, d.gpu) else json_array(t.node) end::varchar as devices
from unit u
join device_stay t on t.cluster = u.cluster and t.device_id = u.device_id
join device d on d.device_id = u.device_id and d.cluster = u.cluster
where $by_node;

-- A row of priced_unit is a unit, a span of one price, and its kind: all that is asked for of a device, as one number, so
-- that sums are made over numbers and words are joined to the few results. price is in units of 10^-$places. lacks: no
-- rate covers the span; the kind then names what lacks one.
create or replace temp table priced_unit as
with price as (
    select
        u.cluster,
        u.unit_id,
        u.slice,
        u.devices,
        p.pool,
        p.model,
        p.profile,
        p.reporting,
        p.start_us,
        p.end_us,
        p.usd_per_gpu_hour,
        p.currency
    from (select distinct cluster, unit_id, class_id, slice, devices from unit where class_id is not null) u
    join class_price p on p.class_id = u.class_id and p.cluster = u.cluster
    where p.start_us < $end_us and p.end_us > $start_us
    union all
    select
        u.cluster,
        u.unit_id,
        u.slice,
        u.devices,
        d.pool,
        d.model,
        u.profile,
        d.measured
        or exists (select 1 from device s where s.parent_id = d.device_id and s.cluster = d.cluster and s.measured),
        $start_us,
        $end_us,
        null,
        null
    from unit u
    join device d on d.device_id = u.device_id and d.cluster = u.cluster
    where u.class_id is null
),
stayed as (
    select
        p.* replace (
            greatest(p.start_us, coalesce(t.from_us, p.start_us)) as start_us,
            least(p.end_us, coalesce(t.to_us, p.end_us)) as end_us,
            coalesce(t.devices, p.devices) as devices
        )
    from price p
    left join unit_stay t on t.unit_id = p.unit_id and t.from_us < p.end_us and t.to_us > p.start_us
),
named as (
    select
        p.unit_id,
        p.start_us,
        p.end_us,
        p.currency,
        p.usd_per_gpu_hour is null as lacks,
        coalesce(
            (
                split_part(p.usd_per_gpu_hour, '.', 1)
                || rpad(split_part(p.usd_per_gpu_hour, '.', 2), $places, '0')
            )::hugeint,
            0
        ) as price,
        p.reporting,
        case when $by_gpu_model or lacks then p.model end as gpu_model,
        case when $by_mig_profile or lacks then p.profile end as mig_profile,
        p.slice,
        p.devices,
        case when $by_cluster or lacks then p.cluster end as cluster,
        case when $by_pool or lacks then p.pool end as pool
    from stayed p
    where $pool is null or p.pool = $pool
)
select
    *,
    dense_rank() over (
        order by lacks, price, currency, reporting, gpu_model, mig_profile, slice, cluster, pool, devices
    )::integer as kind_id,
    dense_rank() over (
        order by lacks, currency, gpu_model, mig_profile, slice, cluster, pool, devices
    )::integer as word_id
from named;

-- A row of kind is the meaning of one such number; kinds of one word_id differ in their price only, or in who measures.
create or replace temp table kind as
select distinct
    kind_id, word_id, lacks, price, currency, reporting, gpu_model, mig_profile, slice, cluster, pool, devices
from priced_unit;
