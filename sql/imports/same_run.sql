-- A row is a finished import of exactly these files.
select g.import_id
from import_given g
join import_run r using (import_id)
where r.finished and r.forgotten_us is null
group by g.import_id
having count(*) = len($files::bigint[]) and count(*) filter (where list_contains($files::bigint[], g.file_id)) = count(*);
