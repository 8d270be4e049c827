-- A row is a file of an import, and whether another import gave it too.
select
    g.file_id,
    f.path,
    coalesce(f.traced, false) as traced,
    exists (
        select 1
        from import_given o
        join import_run r using (import_id)
        where o.file_id = g.file_id and o.import_id <> g.import_id and r.forgotten_us is null
    ) as shared
from import_given g
join import_file f using (file_id)
where g.import_id = $import_id
order by f.path;
