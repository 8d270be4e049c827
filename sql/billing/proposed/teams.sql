-- Replaces run_team, for this connection, by the teams of team_rows. Dropped by ledger/totals/drop.sql.
create temp table run_team as select * from team_rows;
