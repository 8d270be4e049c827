-- A row is a run of a cluster that has no team yet (with $everyone: every run), and the words by which its team is found.
select cluster, run_id, labels, queue, namespace, account, user_name, own
from run
where cluster = $cluster
    and ($everyone or run_id not in (select run_id from run_team where cluster = $cluster))
order by run_id;
