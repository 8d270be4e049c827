-- A row is a run and a class of work: the time its devices spent in that class in some hours.
select w.run_id, w.workload_class, sum(w.covered_us)::bigint as covered_us
from workload_hour w
where w.run_id in (select run_id from classed_run) and ($cluster is null or w.cluster = $cluster)
    and ($start_us is null or w.hour_us >= $start_us) and ($end_us is null or w.hour_us < $end_us)
    and w.workload_class is not null
group by w.run_id, w.workload_class
order by w.run_id, w.workload_class;
