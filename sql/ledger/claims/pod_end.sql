-- A name is unique in its namespace: a pod whose end nobody recorded was gone when another pod of its name started.
update wanted
set end_us = n.next_us
from (
    select w.pod_uid, w.namespace, w.pod, min(other.start_us) as next_us
    from wanted w
    join wanted other
        on other.pod = w.pod and other.namespace is not distinct from w.namespace
        and other.pod_uid <> w.pod_uid and other.start_us > w.start_us
    where w.scheduler = 'kubernetes' and other.scheduler = 'kubernetes' and not w.ended
    group by w.pod_uid, w.namespace, w.pod
) n
where wanted.scheduler = 'kubernetes' and not wanted.ended and wanted.pod_uid = n.pod_uid and wanted.pod = n.pod
    and wanted.namespace is not distinct from n.namespace and wanted.end_us > n.next_us;

-- A row of unlisted is a pod of a dump, without an end, that a later dump of its namespace and node does not have: it was there up
-- to the last dump that has it, and gone by gone_us.
create or replace temp table unlisted as
with running as (
    select
        pod_uid,
        any_value(namespace) as namespace,
        any_value(node) as node,
        any_value(pod) as pod,
        max(greatest(start_us, evidence_us)) as last_us
    from claim
    where cluster = $cluster and scheduler = 'kubernetes' and pod_uid is not null
        and exists (select 1 from pod_list where cluster = $cluster)
    group by pod_uid
    -- A live source sees each pod go.
    having max(end_us) is null and bool_and(file_id is not null)
)
select r.pod_uid, r.namespace, r.pod, r.last_us, min(l.at_us) as gone_us
from running r
join pod_list l
    on l.cluster = $cluster and l.at_us > r.last_us
    and coalesce(l.namespace = r.namespace, true) and coalesce(l.node = r.node, true)
-- One whose name another pod took later ended then, see above.
where not exists (
    select 1
    from wanted w
    where w.scheduler = 'kubernetes' and w.pod = r.pod and w.namespace is not distinct from r.namespace
        and w.pod_uid <> r.pod_uid and w.start_us > r.last_us
)
group by r.pod_uid, r.namespace, r.pod, r.last_us;

update wanted
set end_us = u.last_us, ended = true
from unlisted u
where wanted.scheduler = 'kubernetes' and not wanted.ended and wanted.pod_uid = u.pod_uid and wanted.end_us > u.last_us;

-- A row of guessed is a pod whose end is estimated, as marked in its last record.
create or replace temp table guessed as
select
    pod_uid,
    namespace,
    pod,
    max(end_us) as end_us,
    min(epoch_us(json_extract_string(labels, '$."gpuwatch.io/ended-by"')::timestamp)) as gone_us
from claim
where cluster = $cluster and scheduler = 'kubernetes' and end_us is not null
    and pod_uid in (select pod_uid from claim where cluster = $cluster and (labels ->> '$."gpuwatch.io/ended-by"') is not null)
group by all
having bool_and((labels ->> '$."gpuwatch.io/ended-by"') is not null)
union all
select pod_uid, namespace, pod, last_us, gone_us
from unlisted;

-- It is held while samples name it, at most until it was gone or another pod has its name.
update wanted
set end_us = e.end_us
from (
    with bounded as (
        select
            g.pod_uid,
            g.namespace,
            g.pod,
            g.end_us,
            least(g.gone_us, min(w.start_us)) as gone_us
        from guessed g
        left join wanted w
            on w.pod = g.pod and w.namespace is not distinct from g.namespace and w.pod_uid <> g.pod_uid
            and w.start_us >= g.end_us
        group by g.pod_uid, g.namespace, g.pod, g.end_us, g.gone_us
    )
    select b.pod_uid, max(least(b.gone_us, o.last_us + n.last_interval_us // 2)) as end_us
    from bounded b
    join owner_span o
        on o.pod = b.pod and o.namespace is not distinct from b.namespace and coalesce(o.pod_uid = b.pod_uid, true)
        and o.first_us < b.gone_us and o.last_us >= b.end_us
    join seen n using (device_id)
    group by b.pod_uid
) e
where wanted.scheduler = 'kubernetes' and wanted.pod_uid = e.pod_uid and e.end_us > wanted.end_us;
