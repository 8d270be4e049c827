-- A row of hour_digest is an hour and a digest of the allocations, or workloads, whose latest time is in it.
create or replace temp table hour_digest as
select
    'claim' as kind,
    coalesce(greatest(start_us, end_us, evidence_us), -1) // 3600000000 * 3600000000 as hour_us,
    count(*) || ',' || sum(hash(c)::hugeint) as digest
from claim c
where cluster = $cluster
group by all
union all
select
    'workload',
    coalesce(greatest(submit_us, admitted_us, observed_us), -1) // 3600000000 * 3600000000,
    count(*) || ',' || sum(hash(w)::hugeint)
from workload w
where cluster = $cluster
group by all;

-- A row of changed_hour is an hour whose records are not those of the last attribution.
create or replace temp table changed_hour as
select kind, hour_us
from hour_digest n
full join (select kind, hour_us, digest from attributed_hour where cluster = $cluster) o using (kind, hour_us)
where n.digest is distinct from o.digest;
