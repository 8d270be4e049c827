-- Teams that no ownership rule decides.

-- inferred: the team is named by the account or namespace, because no rule decides.
alter table run_team add column inferred boolean;

-- The team under the other value of ownership_default; NULL: the same.
alter table run_team add column other_team varchar;
