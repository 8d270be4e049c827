-- A row of near_label is a job or pod that samples name since $reach_us.
create or replace temp table near_label as
select distinct c.job, c.pod
from context_span s
join context c using (context_id)
where c.cluster = $cluster and s.hour_us >= $reach_us and (c.job is not null or c.pod is not null);

-- A row of live_job is a job whose records are read: it runs, or has a record, a label or a workload since $reach_us.
-- A pod that kube-state-metrics no longer reports has ended, even without a record of its end.
create or replace temp table live_job as
select job_id
from run
where cluster = $cluster and not ended and not (scheduler = 'kubernetes' and end_us < $reach_us - 4 * 3600000000)
union
select job_id
from claim
where cluster = $cluster
    and (greatest(start_us, end_us, evidence_us) >= $reach_us or greatest(start_us, end_us, evidence_us) is null)
union
select job_id
from workload
where cluster = $cluster
    and (greatest(submit_us, admitted_us, observed_us) >= $reach_us or greatest(submit_us, admitted_us, observed_us) is null)
union
select job from near_label;

delete from live_job where job_id is null;

-- The last report of each scheduler ends its runs that have no end yet.
insert into live_job
select arg_max(job_id, greatest(start_us, case when end_us <= start_us + $run_us_max then end_us end, evidence_us))
from claim
where cluster = $cluster
group by scheduler;

-- A row of live_pod is the name of such a pod.
create or replace temp table live_pod as
select distinct pod from near_label where pod is not null;
