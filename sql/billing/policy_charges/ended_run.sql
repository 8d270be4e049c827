-- A row of ended_run is a run that is over and the span in which it held GPUs; failed: a node failure or a preemption ended it.
create or replace temp table ended_run as
select
    r.run_id,
    r.cluster,
    min(s.start_us) as start_us,
    max(s.end_us) as end_us,
    list_contains($failed::varchar[], lower(any_value(r.state))) as failed
from run r
join segment s on s.run_id = r.run_id and s.cluster = r.cluster
where r.ended and r.start_us < $end_us and r.end_us > $start_us - $before_us
group by r.run_id, r.cluster;

-- A row of run_adjustment is device time at one instant that its team pays in addition to what a run held (units above 0), or
-- does not pay although the run held it (below 0).
create or replace temp table run_adjustment (
    day_us bigint,
    policy integer,
    run_id bigint,
    cluster varchar,
    device_id bigint,
    profile varchar,
    at_us bigint,
    cause varchar,
    units hugeint
);
