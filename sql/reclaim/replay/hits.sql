-- A row is a limit and a team (NULL: all teams): how many jobs would have lost a device, how many devices they would have lost
-- (each time counts), and how many of both wrongly: the job used the device again before it gave it back.
select
    limit_us,
    team,
    count(distinct (scheduler, job_id)) as jobs,
    count(distinct (scheduler, job_id)) filter (where resumed) as wrong_jobs,
    count(*) as devices,
    count(*) filter (where resumed) as wrong_devices,
    count(*) filter (where resumed and end_us - taken_us <= $soon_us) as soon_devices
from replay_taken
group by grouping sets ((limit_us), (limit_us, team))
order by limit_us, team;
