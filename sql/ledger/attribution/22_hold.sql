-- A row of label_match is a run and a labelled span that may be its own. `overlap_us` is the time they share; labels run
-- ahead of or behind the scheduler's times, and the next run of a job carries the same label. `span` is the row of owner_span.
create or replace temp table label_match as
with slurm_run as (
    select run_id, pod_uid, job_id, split_part(run_key, '@', 1) as raw_job_id, start_us, max(end_us) as end_us
    from wanted
    where scheduler = 'slurm'
    group by all
),
slurm_label as (
    select w.run_id, w.pod_uid, w.start_us, w.end_us, o.device_id, o.first_us, o.last_us, o.job as label, o.rowid as span
    from slurm_run w
    join owner_span o
        on o.job = w.job_id
        and o.first_us <= w.end_us + $label_lag_us and o.last_us >= w.start_us - $label_lag_us
    union all
    select w.run_id, w.pod_uid, w.start_us, w.end_us, o.device_id, o.first_us, o.last_us, o.job, o.rowid
    from slurm_run w
    join owner_span o
        on o.job = w.raw_job_id
        and o.first_us <= w.end_us + $label_lag_us and o.last_us >= w.start_us - $label_lag_us
    where w.raw_job_id is distinct from w.job_id
),
pod_run as (
    select distinct run_id, pod_uid, pod, namespace, start_us, end_us
    from wanted
    where scheduler = 'kubernetes'
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
        concat_ws('/', o.namespace, o.pod) as label,
        o.rowid as span
    from pod_run w
    join owner_span o
        on o.pod = w.pod and o.namespace is not distinct from w.namespace
        and coalesce(o.pod_uid = w.pod_uid, true)
        and o.first_us <= w.end_us + $label_lag_us and o.last_us >= w.start_us - $label_lag_us
),
measured as (
    select
        l.* replace (least(l.end_us, g.end_us) as end_us),
        least(l.end_us, g.end_us, l.last_us + n.last_interval_us // 2)
        - greatest(l.start_us, l.first_us - n.last_interval_us // 2) as overlap_us,
        l.last_us - l.first_us + n.last_interval_us as span_us
    from (select * from slurm_label union all select * from pod_label) l
    join seen n using (device_id)
    left join let_go g on g.run_id = l.run_id and g.node = n.node
)
select
    *,
    overlap_us > $label_lag_us or (overlap_us > 0 and 2 * overlap_us >= least(end_us - start_us, span_us)) as sure
from measured;

-- A row of hold is a device and a run that held it: pods of one gang on a shared device are several rows. Node and slot are those of
-- the device then, NULL where they are its newest.
-- A span that certainly belongs to one run does not give its device to the run before or after; a run without such a span
-- takes the nearest one.
create or replace temp table hold as
with label_hold as (
    select run_id, device_id, pod_uid, start_us, end_us
    from label_match
    where sure
    union all
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
declared_hold as (
    select distinct w.run_id, n.device_id, w.pod_uid, w.start_us, w.end_us
    -- A profile next to the UUID of a GPU means a slice of it, which is found by placing.
    from (
        select *, unnest(string_split(gpus, ',')) as gpu_uuid
        from wanted
        where gpus is not null and not nested and profile is null
    ) w
    join seen n on n.gpu = trim(w.gpu_uuid) and n.gi = -1
)
select *, true as declared, false as estimated, null::varchar as node, null::varchar as slot from label_hold
union
select *, true, false, null, null from declared_hold;

-- An exporter may name its own pod instead of the node: then the node comes from the labels of its devices.
update seen
set node = label_alias.scheduler_node
from (
    with unnamed as (
        select device_id, node
        from seen
        where node is not null
            and node not in (select node from site)
            and node not in (select node from wanted where node is not null)
    ),
    single_node as (
        select run_id, pod_uid, any_value(node) as node
        from wanted
        where not nested and run_id in (select run_id from hold join unnamed using (device_id))
        group by run_id, pod_uid
        having count(distinct node) = 1
    )
    select n.node, any_value(w.node) as scheduler_node
    from hold h
    join unnamed n using (device_id)
    join single_node w on w.run_id = h.run_id and w.pod_uid is not distinct from h.pod_uid
    group by n.node
    having count(distinct w.node) = 1
) label_alias
where label_alias.node = seen.node;
