-- A row is a run of samples in which a device did nothing and held memory, from its first to its last sample.
-- Only samples with both readings count. One that is busy, or that holds no more than held_bytes, ends a run; so does
-- a longer wait than max_gap_us.
with instant as (
    select
        s.device_id,
        s.observed_us,
        max(s.gpu_util_ratio) = 0 and max(s.fb_used_bytes) > $held_bytes as idle_held
    from sample s
    join context c using (context_id)
    where c.cluster = $cluster
    group by s.device_id, s.observed_us
    having max(s.gpu_util_ratio) is not null and max(s.fb_used_bytes) is not null
),
linked as (
    select
        *,
        not coalesce(lag(idle_held) over device_time, false)
        or observed_us - lag(observed_us) over device_time > $max_gap_us as begins
    from instant
    window device_time as (partition by device_id order by observed_us)
),
numbered as (
    select *, count(*) filter (where begins) over (partition by device_id order by observed_us) as number
    from linked
    where idle_held
),
idle_run as (
    select
        device_id,
        min(observed_us) as start_us,
        max(observed_us) as end_us,
        count(*) as samples
    from numbered
    group by device_id, number
    having end_us - start_us >= $run_us_min
),
device_name as (
    select device_id, any_value(gpu) as gpu, any_value(gi) as gi
    from context
    where cluster = $cluster
    group by device_id
)
select n.gpu, n.gi, r.start_us, r.end_us, r.samples
from idle_run r
join device_name n using (device_id)
order by n.gpu, n.gi, r.start_us;
