-- A row of capacity_span is an elementary span of a device with its share of the physical GPU; the shares of one GPU
-- add up to 1, a part that no slice covers is the GPU's own row in bucket mig_remainder. Spans of slices
-- end where another method of sharing begins.
create or replace temp table capacity_span as
with edge as (
    select gpu, start_us as at_us from owned_part
    union
    select gpu, end_us from owned_part
    union
    select gpu, start_us from slice_life
    union
    select gpu, end_us from slice_life
    union
    select l.gpu, m.from_us
    from (select distinct gpu from slice_life) l
    cross join method_span m
),
span as (
    select gpu, at_us as start_us, lead(at_us) over (partition by gpu order by at_us) as end_us
    from edge
),
owned as (
    select s.*
    from span s
    join owned_part o on o.gpu = s.gpu and s.start_us >= o.start_us and s.end_us <= o.end_us
),
slice as (
    select
        o.gpu,
        o.start_us,
        o.end_us,
        l.device_id,
        l.profile,
        m.method,
        max(u.units) as units,
        any_value(u.whole) as whole
    from owned o
    join slice_life l on l.gpu = o.gpu and l.start_us <= o.start_us and l.end_us >= o.end_us
    join seen n on n.device_id = l.device_id
    join method_span m on m.from_us <= o.start_us and m.until_us > o.start_us
    join share_unit u
        on u.method = m.method and u.model is not distinct from n.model and u.profile is not distinct from l.profile
    group by all
),
layout as (
    select gpu, start_us, end_us, method, any_value(whole) as whole, sum(units)::bigint as units
    from slice
    group by all
)
select
    s.device_id,
    s.profile,
    s.start_us,
    s.end_us,
    s.units::bigint as share_num,
    greatest(l.units, s.whole) as share_den,
    s.method,
    false as remainder
from slice s
join layout l using (gpu, start_us, end_us)
union all
select w.parent_id, null, l.start_us, l.end_us, l.whole - l.units, l.whole, l.method, true
from layout l
join (select distinct gpu, parent_id from gpu_parent) w using (gpu)
where l.units < l.whole
union all
select w.parent_id, null, o.start_us, o.end_us, 1, 1, null, false
from owned o
join (select distinct gpu, parent_id from gpu_parent) w using (gpu)
where not exists (select 1 from layout l where l.gpu = o.gpu and l.start_us = o.start_us and l.end_us = o.end_us)
union all
select device_id, profile, start_us, end_us, share_num, share_den, method, false
from unseen_device;
