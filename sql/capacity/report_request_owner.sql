-- A row is a request of report_request and the words by which its team is found.
select number, cluster, labels, queue, namespace, account, user_name
from report_request
order by number;
