-- A row is a reason for which pieces of imported files were refused, how often, and the first piece of it.
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
