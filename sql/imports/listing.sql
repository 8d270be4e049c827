-- A row is an import whose records are there, with the sums of its files; a value that differs from file to file is NULL.
-- replaced: its records that the readings of another import, the newest of them replaced_by, stand for.
with given as (
    select file_id, max(import_id) as import_id from import_given group by all
),
aside as (
    select r.file_id, count(*) as records, max(g.import_id) as import_id
    from (
        select file_id, replaced_by from replaced_claim
        union all
        select file_id, replaced_by from replaced_pending
    ) r
    left join given g on g.file_id = r.replaced_by
    group by all
)
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
    coalesce(sum(a.records), 0)::bigint as replaced,
    max(a.import_id) as replaced_by,
    coalesce(bool_or(f.traced is distinct from true), false) as untraced
from import_run r
join import_given g using (import_id)
join import_file f using (file_id)
left join aside a using (file_id)
where r.forgotten_us is null
group by all
order by r.import_id desc;
