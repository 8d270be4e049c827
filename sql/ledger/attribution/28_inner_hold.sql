-- A row of inner_hold is an inner run on one device that its outer run holds.
create or replace temp table inner_hold as
select * from inner_rows;
