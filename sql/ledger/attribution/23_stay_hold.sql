-- A GPU that was moved is held in those slots in which samples name the run, or on the node of a run that names the GPU; where
-- there is none, in all its slots.
create or replace temp table hold as
with evidence as (
    select distinct m.run_id, m.device_id, m.pod_uid, t.number
    from label_match m
    join seen n using (device_id)
    join slot_turn t
        on t.gpu = n.gpu and t.moved
        and m.first_us < coalesce(t.to_us, m.first_us + 1) and m.last_us > coalesce(t.from_us, m.last_us - 1)
    where m.sure or m.run_id not in (select run_id from label_match where sure)
    union
    select w.run_id, n.device_id, w.pod_uid, t.number
    from (select *, unnest(string_split(gpus, ',')) as gpu_uuid from wanted where gpus is not null) w
    join seen n on n.gpu = trim(w.gpu_uuid) and n.gi = -1
    join slot_turn t on t.gpu = n.gpu and t.moved and t.node = w.node
),
cut as (
    select
        h.* replace (
            greatest(h.start_us, t.from_us) as start_us,
            least(h.end_us, t.to_us) as end_us,
            t.node as node,
            t.slot as slot
        )
    from hold h
    join seen n using (device_id)
    join slot_turn t on t.gpu = n.gpu and t.moved
    where t.number in (
            select e.number
            from evidence e
            where e.run_id = h.run_id and e.device_id = h.device_id and e.pod_uid is not distinct from h.pod_uid
        )
        or not exists (
            select 1
            from evidence e
            where e.run_id = h.run_id and e.device_id = h.device_id and e.pod_uid is not distinct from h.pod_uid
        )
)
select distinct * from cut where end_us > start_us
union all
select *
from hold
where device_id not in (select device_id from seen where gpu in (select gpu from stay));
