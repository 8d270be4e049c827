-- A row is a cluster and the last moment that any of its sources confirms, up to an instant: a sample, or the word of a scheduler. A
-- scheduler that is read live (its records are of no file) reports changes, and everything once an hour: it confirms up to $fresh_us
-- after its last record.
with tail as (
    select device_id, max(observed_us) as last_us
    from sample_tail
    group by device_id
),
word as (
    select d.cluster, greatest(d.last_us, t.last_us) as last_us, false as live
    from device d
    left join tail t using (device_id)
    union all
    select cluster, max(evidence_us), file_id is null from claim group by all
    union all
    select cluster, max(evidence_us), file_id is null from pending group by all
    union all
    select cluster, max(observed_us), file_id is null from workload group by all
    union all
    select cluster, max(observed_us), file_id is null from queue group by all
    union all
    select cluster, max(last_us), file_id is null from event group by all
)
select cluster, least(max(case when live then last_us + $fresh_us else last_us end), $at_us) as at_us
from word
where last_us is not null and ($cluster is null or cluster = $cluster)
group by cluster
order by cluster;
