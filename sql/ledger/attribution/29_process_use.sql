-- Reads the process use of each owner of a shared device, for hours with new samples and hours not read before. Hours whose
-- raw samples are deleted keep the values read earlier.
delete from process_use
where cluster = $cluster
    and hour_us // 86400000000 * 86400000000 in (select day_us from sealed_day)
    and (not $by_process or hour_us in (select hour_us from dirty_hour where cluster = $cluster));

insert into process_use
with shared_hour as (
    select distinct s.device_id, s.hour_us
    from context_span s
    join context c using (context_id)
    where c.cluster = $cluster and s.shared and $by_process
        and s.hour_us // 86400000000 * 86400000000 in (select day_us from sealed_day)
        and (s.device_id, s.hour_us) not in (select (device_id, hour_us) from process_use where cluster = $cluster)
),
reading as (
    select
        t.device_id,
        h.hour_us,
        t.observed_us,
        t.context_id,
        coalesce(c.pod, c.job) is not null as owned,
        max(t.gpu_util_ratio) as used_ratio
    from sample t
    join shared_hour h on h.device_id = t.device_id and h.hour_us = t.observed_us // 3600000000 * 3600000000
    join context c using (context_id)
    where t.gpu_util_ratio is not null
        and t.observed_us >= (select min(hour_us) from shared_hour)
        and t.observed_us < (select max(hour_us) from shared_hour) + 3600000000
    group by all
),
-- Without process readings every owner's row repeats the device's. They count as process readings where they differ,
-- or where they add up to no more than the reading of the device without an owner.
per_process as (
    select device_id, observed_us
    from reading
    group by device_id, observed_us
    having count(distinct used_ratio) filter (where owned) > 1
        or sum(used_ratio) filter (where owned) <= max(used_ratio) filter (where not owned) + $ratio_slack
)
select
    $cluster,
    r.device_id,
    r.hour_us,
    r.context_id,
    r.observed_us // 300000000 * 300000000,
    sum(round(10000 * r.used_ratio))::bigint
from reading r
join per_process using (device_id, observed_us)
where r.owned
group by r.device_id, r.hour_us, r.context_id, r.observed_us // 300000000
union all
select $cluster, device_id, hour_us, null, hour_us, null
from shared_hour;
