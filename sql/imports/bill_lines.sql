-- How many lines of bills are from these files.
select count(*) as lines
from bill
where file_id in (select bill_file_id from import_file where list_contains($files::bigint[], file_id));
