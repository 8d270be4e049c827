-- A row of shown_run is a run of some jobs that touches the window.
create or replace temp table shown_run as
select r.run_id
from run r
join asked_job j on j.cluster = r.cluster and j.job_id = r.job_id
where r.start_us < $end_us and r.end_us > $start_us;

-- A row of shown_segment is a segment of these runs in the window: jobs/amount.sql and jobs/size.sql read it too.
create or replace temp table shown_segment as
select run_id, cluster, device_id, profile, start_us, end_us, share_num, share_den
from segment
where run_id in (select run_id from shown_run) and start_us < $end_us and end_us > $start_us;

-- A row is a run of some jobs that touches the window: its words, its team, and the devices it held. common: at some time
-- it held all of them at once.
with asked as (
    select r.*, coalesce(t.team, '__unallocated__') as team, t.team_why, coalesce(t.inferred, false) as inferred
    from run r
    join shown_run s on s.run_id = r.run_id
    left join run_team t on t.run_id = r.run_id and t.cluster = r.cluster
    where ($teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__')))
        and ($user is null or r.user_name = $user)
),
size as (
    select run_id, count(distinct device_id) as devices, max(start_us) < min(end_us) as common
    from shown_segment
    group by run_id
),
-- How long Slurm had stopped a run, where it did; each record has the total of its run.
stopped as (
    select cluster, job_id, run_key, max(suspended_us) as suspended_us
    from claim
    where scheduler = 'slurm' and suspended_us > 0
    group by all
)
select
    a.cluster,
    a.job_id,
    a.run_id,
    a.run_key,
    a.scheduler,
    a.declared,
    a.name,
    a.user_name,
    a.account,
    a.queue,
    a.namespace,
    coalesce(a.state, case when not a.ended then 'RUNNING' end) as state,
    a.submit_us,
    a.start_us,
    case when a.ended then a.end_us end as end_us,
    a.ended and coalesce(a.end_estimated, false) as end_estimated,
    a.team,
    a.team_why,
    a.inferred,
    p.suspended_us,
    z.devices,
    z.common
from asked a
left join size z using (run_id)
left join stopped p
    on a.scheduler = 'slurm' and p.cluster = a.cluster and p.job_id = a.job_id and p.run_key = a.run_key
order by a.cluster, a.job_id, a.start_us, a.run_id;
