-- A row is a cluster's requests for whole GPUs, or for MIG slices, that started in the window and have a time of submission:
-- how many there are, and how many waited longer than $wait_us, for whatever reason.
with request as (
    select
        cluster,
        scheduler,
        job_id,
        bool_or(profile is not null) as sliced,
        min(start_us) - min(submit_us) as wait_us
    from claim
    where job_id is not null and submit_us is not null and start_us >= $start_us and start_us < $end_us
        and ($cluster is null or cluster = $cluster) and device_count > 0 and not coalesce(contains(profile, '/'), false)
    group by all
)
select cluster, sliced, count(*) as requests, count(*) filter (where wait_us > $wait_us) as waited
from request
group by all
order by all;
