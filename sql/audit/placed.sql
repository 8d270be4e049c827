-- A row of audit_placed is a run within the window and who placed it, from run_placer (sql/views). 'unknown': the run is only
-- known from labels of samples, which name no scheduler.
create or replace temp table audit_placed as
select
    * replace (
        case
            when authority = 'inner' then 'inner'
            when not declared then 'unknown'
            when authority = 'kubernetes' then 'kube-scheduler'
            else authority
        end as authority
    )
from run_placer;

-- A row of audit_used is what one authority placed on one node of a pool in the window: GPU-microseconds (share-weighted).
create or replace temp table audit_used as
select
    s.cluster,
    coalesce(d.pool, d.model, 'unknown') as pool,
    d.node,
    p.authority,
    p.gate,
    sum((least(s.end_us, $until_us) - greatest(s.start_us, $since_us))::double * s.share_num / s.share_den) as gpu_us
from segment s
join audit_placed p using (run_id)
join device d on d.device_id = s.device_id and d.cluster = s.cluster
where s.start_us < $until_us and s.end_us > $since_us
group by all;
