-- A row is a slice of slice_page, added up over all who held it and over its layouts. `owner` held it longest. Its profile,
-- share and place are those of its last row; `current`: it is in the newest layout of its GPU. Means are weighted by time. mixed: it was charged in several currencies, which are not added up.
with size as (
    select
        unnest($models::varchar[]) as model,
        unnest($profiles::varchar[]) as profile,
        unnest($bytes::double[]) as bytes
),
part as (
    select
        p.* exclude (cents),
        d.measured,
        d.gpu,
        d.gi,
        d.node,
        d.model as gpu_model,
        d.parent_id,
        r.job_id as job,
        p.owner not in ('__platform__', '__idle__') or r.job_id is not null as held,
        case when not p.lacks then p.cents end as cents,
        case when d.measured then coalesce(u.hoarded_us, 0) end as hoarded_us,
        u.gr_engine_ratio,
        least(u.fb_used_bytes / z.bytes, 1) as fb_used_ratio,
        max(case when d.measured then p.layout_us end) over (partition by p.cluster, d.parent_id) as newest_us
    from slice_page p
    join device d on d.device_id = p.device_id and d.cluster = p.cluster
    left join run r on r.run_id = p.run_id and r.cluster = p.cluster
    left join slice_used u on u.key = p.key
    left join size z on z.model = d.model and z.profile = p.profile
),
holder as (
    select
        cluster,
        slice,
        owner,
        sum(device_us) as held_us,
        arg_max({'job': job}, (device_us, -key)).job as job
    from part
    where held
    group by cluster, slice, owner
),
longest as (
    select
        cluster,
        slice,
        arg_max({'owner': owner, 'job': job}, (held_us, owner)) as top,
        count(*) as owners
    from holder
    group by cluster, slice
),
added as (
    select
        cluster,
        slice,
        arg_max(
            {
                'measured': measured,
                'gpu': gpu,
                'gi': gi,
                'node': node,
                'gpu_model': gpu_model,
                'parent_id': parent_id,
                'profile': profile,
                'share_num': share_num,
                'share_den': share_den,
                'layout_us': layout_us,
                'newest_us': newest_us
            },
            (start_us, -key)
        ) as latest,
        bool_or(layout_us = newest_us) as current,
        string_agg(distinct method, ', ' order by method) as method,
        string_agg(distinct split, ', ' order by split) as split,
        sum(device_us) filter (where held) as held_us,
        sum(device_us) filter (where not held) as free_us,
        sum(hoarded_us) filter (where held) as hoarded_us,
        max(currency) filter (where cents is not null) as currency,
        count(distinct currency) filter (where cents is not null) > 1 as mixed,
        sum(cents) filter (where held) as cents,
        sum(cents) filter (where not held) as free_cents,
        sum(gr_engine_ratio * device_us) filter (where held)
            / sum(device_us) filter (where held and gr_engine_ratio is not null) as gr_engine_ratio,
        sum(fb_used_ratio * device_us) filter (where held)
            / sum(device_us) filter (where held and fb_used_ratio is not null) as fb_used_ratio
    from part
    group by cluster, slice
)
select
    a.slice,
    a.cluster,
    unnest(a.latest),
    coalesce(a.current, true) as current,
    a.method as share_method,
    a.split,
    l.top.owner as owner,
    l.top.job as job,
    coalesce(l.owners, 0) as owners,
    coalesce(a.held_us, 0)::varchar as held_us,
    coalesce(a.free_us, 0)::varchar as free_us,
    a.hoarded_us::varchar as hoarded_us,
    a.mixed,
    case when not a.mixed then a.currency end as currency,
    case when not a.mixed then a.cents::varchar end as cents,
    case when not a.mixed then a.free_cents::varchar end as free_cents,
    a.gr_engine_ratio,
    a.fb_used_ratio
from added a
left join longest l using (cluster, slice)
order by a.cluster, a.slice;
