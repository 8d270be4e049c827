-- A row means that some run of a cluster has no team yet.
select 1
from run
where cluster = $cluster and run_id not in (select run_id from run_team where cluster = $cluster)
limit 1;
