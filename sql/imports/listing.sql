-- A row is an import whose records are there, with the sums of its files; a value that differs from file to file is NULL.
select
    r.import_id,
    r.kind,
    r.path,
    r.imported_us,
    r.finished,
    case when count(distinct f.cluster) = 1 then min(f.cluster) end as cluster,
    case when count(distinct nullif(f.zone, '')) = 1 then max(nullif(f.zone, '')) end as zone,
    count(f.file_id) as files,
    coalesce(sum(f.records), 0)::bigint as records,
    coalesce(sum(f.rejected), 0)::bigint as rejected,
    coalesce(bool_or(f.traced is distinct from true), false) as untraced
from import_run r
join import_given g using (import_id)
join import_file f using (file_id)
where r.forgotten_us is null
group by all
order by r.import_id desc;
