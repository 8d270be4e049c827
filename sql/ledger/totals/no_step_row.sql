-- The empty table of ledger/totals/step_row.sql.
create or replace temp table step_row (key bigint, unit varchar, sign tinyint);
