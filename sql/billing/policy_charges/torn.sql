-- A row of torn is a run that is over and the span in which something held it; failed: a node or a preemption ended it.
create or replace temp table torn as
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

-- A row of bit is device time of a run at one instant that moves money: units that its team pays beside what it held, or less
-- than that.
create or replace temp table bit (
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
