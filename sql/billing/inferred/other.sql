-- Replaces run_team, for this connection, by the teams under the other value of ownership_default. Dropped by
-- ledger/totals/drop.sql.
create temp table run_team as
select * replace (coalesce(other_team, team) as team, coalesce(other_team is not null and not inferred, false) as inferred)
from run_team;
