-- A row of batch_rows is a file of a bill (model.BILL_FILE) whose lines are all in bill: from now on they count,
-- and the lines they restate are deleted.
-- Lines of a file whose import did not finish; no other import runs at the same time.
delete from bill
where file_id not in (select file_id from bill_file) and file_id not in (select file_id from batch_rows);

-- Duplicate lines come from an interrupted import, or from the same content under another name.
delete from bill
where rowid in (
    select rowid
    from (
        select rowid, row_number() over (partition by file_id, line, part order by rowid) as place
        from bill
        where file_id in (select file_id from batch_rows)
            and (select count(*) from bill where file_id in (select file_id from batch_rows))
            > (select sum(records) from batch_rows)
    )
    where place > 1
);

-- Reports that only add: a line that another file has brought is the same line.
delete from bill
where file_id in (select file_id from batch_rows where scope = 'lines')
    and line_key in (
        select line_key
        from bill
        where file_id in (select file_id from bill_file where scope = 'lines')
            and file_id not in (select file_id from batch_rows)
    );

-- A row of restated is an account and billing period that the file restates: all of it, or one sub-account from the first
-- of its days to the last.
create or replace temp table restated as
select
    f.assembly,
    f.name,
    f.scope,
    b.provider,
    b.account,
    b.billing_start_us,
    case when f.scope = 'days' then b.sub_account end as sub_account,
    min(b.start_us) as from_us,
    max(b.start_us) as to_us
from bill b
join batch_rows f using (file_id)
where f.scope <> 'lines'
group by all;

-- A row of repeated is an older file of the assembly with the same content: most of its lines that the file restates have the
-- same resource, time and charge in the new file. So it is an older version of the bill, not another part of it.
create or replace temp table repeated as
with bill_line as (
    select
        b.file_id,
        b.provider,
        b.account,
        b.billing_start_us,
        b.start_us,
        b.sub_account,
        hash(b.sub_account, b.resource, b.start_us, b.end_us, b.charge_type, b.sku, b.description, b.unit) as what
    from bill b
    where b.resource is not null
)
select r.assembly, o.file_id, r.provider, r.account, r.billing_start_us
from restated r
join bill_file f on f.assembly = r.assembly and f.name <> r.name
join bill_line o
    on o.file_id = f.file_id
    and o.provider = r.provider
    and o.account is not distinct from r.account
    and o.billing_start_us = r.billing_start_us
    and (
        r.scope = 'period'
        or (r.sub_account is not distinct from o.sub_account and o.start_us between r.from_us and r.to_us)
    )
where f.file_id not in (select file_id from batch_rows)
group by all
having 2 * count(*) filter (
    o.what in (select what from bill_line where file_id in (select file_id from batch_rows))
) > count(*);

-- Parts of one assembly are kept together; between files with the same name or the same lines, and between assemblies,
-- the newer one counts.
delete from bill
where rowid in (
    select b.rowid
    from bill b
    join bill_file f using (file_id)
    join restated r
        on r.provider = b.provider
        and r.account is not distinct from b.account
        and r.billing_start_us = b.billing_start_us
        and (
            r.assembly <> f.assembly
            or r.name = f.name
            or exists (
                select 1
                from repeated o
                where o.file_id = f.file_id
                    and o.assembly = r.assembly
                    and o.provider = r.provider
                    and o.account is not distinct from r.account
                    and o.billing_start_us = r.billing_start_us
            )
        )
    where b.file_id not in (select file_id from batch_rows)
        and (
            r.scope = 'period'
            or (r.sub_account is not distinct from b.sub_account and b.start_us between r.from_us and r.to_us)
        )
);

drop table restated;

drop table repeated;

delete from bill_file
where file_id in (select file_id from batch_rows) or file_id not in (select distinct file_id from bill);

insert into bill_file
select file_id, kind, name, assembly, scope, records
from batch_rows;
