-- A row is an import kind of a cluster: its files, the time of the last import, and their records.
select
    kind,
    cluster,
    count(*) as files,
    max(imported_us) as imported_us,
    sum(records)::bigint as records,
    arg_max(path, (imported_us, path)) as path
from import_file
group by kind, cluster
order by kind, cluster;
