-- A row is a GPU and a layout epoch that the page of slices touches, and one slice in it, whoever holds it. An unmeasured slice is alone.
-- remainder_num / remainder_den: what no slice covers, NULL where slices cover all.
with epoch as (
    select distinct y.*
    from slice_page p
    join device d on d.device_id = p.device_id and d.cluster = p.cluster
    join layout y on y.cluster = p.cluster and y.parent_id = d.parent_id and y.start_us = p.layout_us
),
remainder as (
    select
        e.cluster,
        e.parent_id,
        e.start_us,
        any_value(s.share_num) as remainder_num,
        any_value(s.share_den) as remainder_den
    from epoch e
    join segment s
        on s.cluster = e.cluster and s.device_id = e.parent_id and s.share_num < s.share_den
        and s.start_us < e.end_us and s.end_us > e.start_us
    group by all
)
select
    e.cluster,
    e.parent_id,
    e.start_us as layout_us,
    d.gpu,
    d.node,
    d.model as gpu_model,
    d.gi,
    d.measured,
    l.profile,
    m.remainder_num,
    m.remainder_den
from epoch e
join slice_life l
    on l.cluster = e.cluster and l.parent_id = e.parent_id and l.start_us < e.end_us and l.end_us > e.start_us
join device d on d.device_id = l.device_id and d.cluster = l.cluster
left join remainder m on m.cluster = e.cluster and m.parent_id = e.parent_id and m.start_us = e.start_us
order by e.cluster, d.gpu, e.start_us, d.gi, l.profile;
