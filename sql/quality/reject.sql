-- A row is a reason for refused items of imported files, how often it occurred, and the first example.
select
    kind,
    cluster,
    reason,
    sum(count)::bigint as times,
    arg_min(path, (path, line)) as path,
    arg_min(line, (path, line)) as line,
    arg_min(example, (path, line)) as example
from reject
where not starts_with(reason, 'ignored: ')
group by kind, cluster, reason
order by kind, cluster, times desc, reason;
