-- A row is a kind of record that a cluster's devices, runs, segments and requests follow from, and a digest of all of them.
-- Samples are not among them: hours with new samples are rows of dirty_hour.
select 'claim' as kind, count(*) || ',' || coalesce(sum(hash(c)::hugeint), 0) as digest
from claim c
where cluster = $cluster
union all
select 'node', count(*) || ',' || coalesce(sum(hash(n)::hugeint), 0)
from node n
where cluster = $cluster
union all
select 'pod_list', count(*) || ',' || coalesce(sum(hash(l)::hugeint), 0)
from pod_list l
where cluster = $cluster
union all
select 'job_list', count(*) || ',' || coalesce(sum(hash(j)::hugeint), 0)
from job_list j
where cluster = $cluster
union all
select 'workload', count(*) || ',' || coalesce(sum(hash(w)::hugeint), 0)
from workload w
where cluster = $cluster
union all
select 'pending', count(*) || ',' || coalesce(sum(hash(p)::hugeint), 0)
from pending p
where cluster = $cluster
union all
select 'context', count(*) || ',' || coalesce(sum(hash(context_id)::hugeint), 0)
from context
where cluster = $cluster
union all
-- GPUs that moved to other clusters end here: once for each hour in which they are there.
select 'elsewhere', count(*) || ',' || coalesce(sum(hash(o.context_id)::hugeint), 0)
from context o
join context_span using (context_id)
where o.cluster <> $cluster and o.gpu in (select gpu from context where cluster = $cluster)
union all
select 'sealed_day', count(*) || ',' || coalesce(sum(hash(day_us)::hugeint), 0)
from sealed_day
union all
select 'dirty_hour', count(*)::varchar
from dirty_hour
where cluster = $cluster
union all
select 'analyzed', inputs
from analyzed
where cluster = $cluster;
