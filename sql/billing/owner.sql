-- A row is a run of a cluster and the words by which its team is found.
select cluster, run_id, labels, queue, namespace, account, user_name, own
from run
where cluster = $cluster
order by run_id;
