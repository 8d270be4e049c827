-- A row of label_match is a run and a labelled span that may be its own. `overlap_us` is the time they share; labels run
-- ahead of or behind the scheduler's times, and the next run of a job carries the same label.
create or replace temp table label_match as
with slurm_label as (
    select w.run_id, w.pod_uid, w.start_us, w.end_us, o.device_id, o.first_us, o.last_us, o.job as label
    from wanted w
    join owner_span o
        on o.job = w.job_id
        and o.first_us <= w.end_us + $label_lag_us and o.last_us >= w.start_us - $label_lag_us
    where w.scheduler = 'slurm'
    union
    select w.run_id, w.pod_uid, w.start_us, w.end_us, o.device_id, o.first_us, o.last_us, o.job
    from wanted w
    join owner_span o
        on o.job = split_part(w.run_key, '@', 1)
        and o.first_us <= w.end_us + $label_lag_us and o.last_us >= w.start_us - $label_lag_us
    where w.scheduler = 'slurm'
),
pod_label as (
    select
        w.run_id,
        w.pod_uid,
        w.start_us,
        w.end_us,
        o.device_id,
        o.first_us,
        o.last_us,
        concat_ws('/', o.namespace, o.pod) as label
    from wanted w
    join owner_span o
        on o.pod = w.pod and o.namespace is not distinct from w.namespace
        and coalesce(o.pod_uid = w.pod_uid, true)
        and o.first_us <= w.end_us + $label_lag_us and o.last_us >= w.start_us - $label_lag_us
    where w.scheduler = 'kubernetes'
),
measured as (
    select
        l.*,
        least(l.end_us, l.last_us + n.last_interval_us // 2)
        - greatest(l.start_us, l.first_us - n.last_interval_us // 2) as overlap_us,
        l.last_us - l.first_us + n.last_interval_us as span_us
    from (select * from slurm_label union all select * from pod_label) l
    join seen n using (device_id)
)
select
    *,
    overlap_us > $label_lag_us or (overlap_us > 0 and 2 * overlap_us >= least(end_us - start_us, span_us)) as sure
from measured;

-- A row of hold is a device and a run that held it: pods of one gang on a shared device are several rows.
-- A span that is surely one run's does not make its device that of the run before or after; a run that no span surely
-- belongs to takes the nearest.
create or replace temp table hold as
with label_hold as (
    select run_id, device_id, pod_uid, start_us, end_us
    from label_match
    where sure
    union
    select m.run_id, m.device_id, m.pod_uid, m.start_us, m.end_us
    from label_match m
    where not m.sure
        and m.run_id not in (select run_id from label_match where sure)
        and not exists (
            select 1
            from label_match s
            where s.sure and s.device_id = m.device_id and s.label = m.label and s.first_us = m.first_us
        )
),
told_hold as (
    select distinct w.run_id, n.device_id, w.pod_uid, w.start_us, w.end_us
    -- A profile beside the UUID of a GPU means a slice of it, which is found by placing.
    from (
        select *, unnest(string_split(gpus, ',')) as gpu_uuid
        from wanted
        where gpus is not null and not nested and profile is null
    ) w
    join seen n on n.gpu = trim(w.gpu_uuid) and n.gi = -1
)
select *, true as declared, false as estimated from label_hold
union
select *, true, false from told_hold;

-- A row of inner_sign is a device that labels or UUIDs say is an inner run's.
create or replace temp table inner_sign as
select h.run_id, h.pod_uid, h.device_id
from hold h
where (h.run_id, coalesce(h.pod_uid, '')) in (select (run_id, coalesce(pod_uid, '')) from nested)
union
select w.run_id, w.pod_uid, n.device_id
from (select *, unnest(string_split(gpus, ',')) as gpu_uuid from wanted where gpus is not null and nested) w
join seen n on n.gpu = trim(w.gpu_uuid) and n.gi = -1;

delete from hold
where (run_id, coalesce(pod_uid, '')) in (select (run_id, coalesce(pod_uid, '')) from nested);

-- An exporter may name its own pod instead of the node: then its devices' labels say on which node they are.
create or replace temp table label_alias as
with single_node as (
    select run_id, pod_uid, any_value(node) as node
    from wanted
    where not nested
    group by run_id, pod_uid
    having count(distinct node) = 1
)
select n.node, any_value(w.node) as scheduler_node
from hold h
join seen n using (device_id)
join single_node w on w.run_id = h.run_id and w.pod_uid is not distinct from h.pod_uid
where n.node is not null
    and n.node not in (select node from site)
    and n.node not in (select node from wanted where node is not null)
group by n.node
having count(distinct w.node) = 1;

update seen
set node = label_alias.scheduler_node
from label_alias
where label_alias.node = seen.node;

drop table label_alias;

-- Where the scheduler tells indexes and no label does, a whole GPU is found by its index on the node. Ray counts from the
-- first GPU that it was given: where that is not all of them, its indexes say nothing.
insert into hold
with ray_given as (
    select node, max(list_sum(try_cast(json_extract(devices, '$.*') as integer[]))) as gpus
    from node
    where cluster = $cluster and scheduler = 'ray'
    group by node
),
ray_part as (
    select g.node
    from ray_given g
    join seen n on n.node = g.node and n.gi = -1
    group by g.node, g.gpus
    having count(*) > g.gpus
)
select distinct w.run_id, n.device_id, w.pod_uid, w.start_us, w.end_us, true, false
from (
    select *, unnest(string_split(device_indexes, ',')) as device_index
    from wanted
    where device_indexes is not null and profile is null and not nested
        and not (scheduler = 'ray' and node in (select node from ray_part))
) w
join seen n on n.node = w.node and n.gi = -1 and n.gpu_index = try_cast(w.device_index as integer)
where not exists (select 1 from hold h where h.run_id = w.run_id and h.device_id = n.device_id)
    and not exists (
        select 1
        from seen slice
        where slice.gpu = n.gpu and slice.gi >= 0 and slice.last_us >= w.start_us and slice.first_us <= w.end_us
    );

-- A row of missing is a run, a node and how many devices it holds there that nothing names.
create or replace temp table missing as
with found as (
    select h.run_id, h.pod_uid, n.node, count(distinct h.device_id) as devices
    from hold h
    join seen n using (device_id)
    group by all
),
found_run as (
    select run_id, count(distinct device_id) as devices from hold group by run_id
),
declared_run as (
    select run_id, sum(device_count) as devices from wanted where not nested group by run_id
)
select
    w.run_id,
    w.pod_uid,
    w.node,
    w.profile,
    w.gpu_type,
    w.start_us,
    w.end_us,
    w.device_indexes,
    w.gpus,
    w.units,
    w.device_count - coalesce(f.devices, 0) as device_count,
    (d.devices - coalesce(r.devices, 0))::bigint as run_short
from wanted w
left join found f
    on f.run_id = w.run_id and f.pod_uid is not distinct from w.pod_uid and f.node = w.node
left join found_run r on r.run_id = w.run_id
join declared_run d on d.run_id = w.run_id
where not w.nested and w.device_count > coalesce(f.devices, 0) and coalesce(r.devices, 0) < d.devices
order by w.node, w.start_us, w.run_id;

-- A row of observed_hold is a device whose samples name an owner that no scheduler record knows.
-- Labels that vanish for a scrape do not end it: the owner before is held within twice the spacing.
create or replace temp table observed_hold as
with unclaimed as (
    select o.*, n.last_interval_us as interval_us
    from owner_span o
    join seen n using (device_id)
    -- One question a kind of name: an equality each, which joins by hash where an OR compares every pair.
    where not exists (
            select 1
            from wanted w
            where w.scheduler = 'slurm' and w.job_id = o.job
                and o.first_us <= w.end_us + $label_lag_us and o.last_us >= w.start_us - $label_lag_us
        )
        and not exists (
            select 1
            from wanted w
            where w.scheduler = 'slurm' and split_part(w.run_key, '@', 1) = o.job
                and o.first_us <= w.end_us + $label_lag_us and o.last_us >= w.start_us - $label_lag_us
        )
        and not exists (
            select 1
            from wanted w
            where w.scheduler = 'kubernetes' and o.pod = w.pod and o.namespace is not distinct from w.namespace
                and coalesce(o.pod_uid = w.pod_uid, true)
                and o.first_us <= w.end_us + $label_lag_us and o.last_us >= w.start_us - $label_lag_us
        )
),
keyed as (
    select
        *,
        coalesce(job, concat_ws('/', namespace, pod)) as job_id,
        case when job is not null then 'slurm' else 'kubernetes' end as scheduler,
        coalesce(pod_uid, job, concat_ws('/', namespace, pod)) as run_key
    from unclaimed
),
linked as (
    select
        *,
        first_us - max(last_us) over (
            partition by device_id, scheduler, job_id, run_key
            order by first_us
            rows between unbounded preceding and 1 preceding
        ) as silence_us
    from keyed
),
numbered as (
    select
        *,
        count(*) filter (where silence_us > 2 * interval_us) over (
            partition by device_id, scheduler, job_id, run_key order by first_us
        ) as turn
    from linked
)
select
    ('0x' || substr(md5(concat_ws(chr(31), $cluster, scheduler, job_id, run_key)), 1, 15))::bigint as run_id,
    scheduler,
    job_id,
    run_key,
    any_value(namespace) as namespace,
    any_value(pod) as pod,
    any_value(job) as job,
    device_id,
    min(first_us) - any_value(interval_us) // 2 as start_us,
    max(last_us) + any_value(interval_us) // 2 as end_us
from numbered
group by scheduler, job_id, run_key, device_id, turn;

insert into hold
select run_id, device_id, null, start_us, end_us, false, false from observed_hold;
