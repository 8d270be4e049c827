-- A row is a run of a team that held GPUs within the window, and its GPUs by the denominator of their shares: units / den GPUs.
-- What a run holds is the most that it held of each device.
with held as (
    select s.cluster, s.run_id, s.device_id, s.share_den, max(s.share_num) as share_num
    from segment s
    join run_team t on t.cluster = s.cluster and t.run_id = s.run_id
    where t.team = $team and s.start_us < $until_us and s.end_us > $from_us
        and ($cluster is null or s.cluster = $cluster)
    group by all
),
whole as (
    select cluster, run_id, share_den as den, sum(share_num)::bigint as units
    from held
    group by all
)
select
    w.cluster,
    w.run_id,
    w.den,
    w.units,
    r.job_id,
    r.user_name,
    r.queue,
    r.start_us,
    least(r.end_us, $until_us) as end_us
from whole w
join run r on r.cluster = w.cluster and r.run_id = w.run_id
where r.start_us < least(r.end_us, $until_us)
order by r.start_us, w.cluster, w.run_id, w.den
limit $limit;
