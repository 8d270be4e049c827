-- A row is a reason for refused input, how often it occurred, and the first example.
select
    kind,
    reason,
    sum(count)::bigint as times,
    arg_min(path, (path, line)) as path,
    arg_min(line, (path, line)) as line,
    arg_min(example, (path, line)) as example
from reject
where not starts_with(reason, 'ignored: ')
group by kind, reason
order by times desc, reason;
