-- The devices of one page: the ledger is read for these only.
delete from unit
where unit_id not in (select unit_id from charge_line where key between $first and $last);

delete from priced_unit
where unit_id not in (select unit_id from unit);

set variable fine_from_us = $end_us::bigint;

set variable fine_until_us = $start_us::bigint;

create or replace temp table fine_span as
select distinct cluster, $start_us::bigint as from_us, $end_us::bigint as to_us from unit;
