-- A row is a job of report_job: its share-weighted GPU-seconds in each bucket, of the hours within the window, and what findings
-- claim of below_roof.
with wanted as (
    select j.number, r.run_id, r.cluster
    from report_job j
    join run r
        on r.cluster is not distinct from j.cluster
        and r.job_id is not distinct from j.job_id
        and r.user_name is not distinct from j.user_name
    left join run_team t on t.cluster = r.cluster and t.run_id = r.run_id
    where coalesce(t.team, '__unallocated__') = j.team and r.start_us < $end_us and r.end_us > $start_us
)
select
    w.number,
    sum(l.unobserved_us * l.share_num / l.share_den) / 1000000 as unobserved,
    sum(l.hoarded_us * l.share_num / l.share_den) / 1000000 as hoarded,
    sum(l.gap_us * l.share_num / l.share_den) / 1000000 as gap,
    sum(l.communication_us * l.share_num / l.share_den) / 1000000 as communication,
    sum(l.stalled_us * l.share_num / l.share_den) / 1000000 as stalled,
    sum(l.below_roof_us * l.share_num / l.share_den) / 1000000 as below_roof,
    sum(l.memory_roof_us * l.share_num / l.share_den) / 1000000 as memory_roof,
    sum(l.compute_us * l.share_num / l.share_den) / 1000000 as compute,
    sum(least(coalesce(c.claimed_us, 0), l.below_roof_us) * l.share_num / l.share_den) / 1000000 as claimed
from wanted w
join ledger_hour l using (cluster, run_id)
left join claimed_hour c
    on c.cluster = l.cluster and c.device_id = l.device_id and c.run_id = l.run_id and c.hour_us = l.hour_us
    and c.profile is not distinct from l.profile and c.share_num = l.share_num and c.share_den = l.share_den
where l.hour_us >= $start_us and l.hour_us < $end_us
group by w.number
order by w.number;
