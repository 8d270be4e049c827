-- Drops the temporary tables of a scorecard.
drop table if exists audit_used;

drop table if exists audit_placed;

drop table if exists run_placer;
