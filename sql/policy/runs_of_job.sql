-- A row is the words by which the team of a job's runs is found: the newest run with these words first. A pod is found by its name
-- with or without its namespace.
select cluster, labels, queue, namespace, account, user_name, own, max(start_us) as started_us
from run
where (job_id = $job or ends_with(job_id, '/' || $job)) and ($cluster is null or cluster = $cluster)
group by all
order by started_us desc, cluster, labels, queue, namespace, account, user_name
limit $limit;
