-- A row is an import kind of a cluster: its files, when the last came, and what they held.
select
    kind,
    cluster,
    count(*) as files,
    max(imported_us) as imported_us,
    sum(records)::bigint as records,
    arg_max(path, imported_us) as path
from import_file
group by kind, cluster
order by kind, cluster;
