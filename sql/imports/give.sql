-- Notes the files of an import, each once.
insert into import_given
with file as (
    select unnest($files::bigint[]) as file_id
)
select $import_id, file_id
from file
where file_id not in (select file_id from import_given where import_id = $import_id);
