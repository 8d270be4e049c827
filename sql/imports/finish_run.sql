-- Marks an import as finished. Interrupted imports of files that this one gave too are part of it, and imports whose files
-- were all replaced have nothing left.
update import_run set finished = true where import_id = $import_id;

update import_run
set forgotten_us = $now_us
where forgotten_us is null and import_id <> $import_id
    and not exists (
        select 1
        from import_given g
        where g.import_id = import_run.import_id
            and (
                import_run.finished
                or g.file_id not in (select file_id from import_given where import_id = $import_id)
            )
    );

delete from import_given
where import_id in (select import_id from import_run where forgotten_us is not null);
