-- A row of read_context is a label set of such a job or pod.
create or replace temp table read_context as
select context_id
from context
where cluster = $cluster
    and (
        job in (select job_id from live_job)
        or job in (select split_part(run_key, '@', 1) from read_claim where contains(run_key, '@'))
        or pod in (select pod from live_pod)
    );

-- A row of device_edge is the first or the last hour of a device.
create or replace temp table device_edge as
select device_id, unnest([first_us, last_us]) // 3600000000 * 3600000000 as hour_us
from device
where cluster = $cluster;

-- A row of read_span is a row of context_span since $reach_us, of such a job or pod, or of a device's first or last hour. Only
-- the former two say who owned the device. Which owners were there at one instant matters only where it is read whole.
create or replace temp table read_span as
select *, true as owned
from context_span
where hour_us >= $reach_us
union all
select * replace (false as shared), true
from context_span
where hour_us < $reach_us and context_id in (select context_id from read_context)
union all
select * replace (false as shared), false
from context_span
where hour_us < $reach_us and hour_us in (select hour_us from device_edge)
    and (device_id, hour_us) in (select (device_id, hour_us) from device_edge)
    and context_id not in (select context_id from read_context);
