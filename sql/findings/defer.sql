-- Adds the time since an instant to a rule's backlog, or leaves the earlier instant that is there.
create or replace temp table backlog as
select any_value(rule_version) as rule_version, least(min(owed_from_us), $from_us) as owed_from_us
from rule_state
where cluster = $cluster and detector = $detector;

delete from rule_state where cluster = $cluster and detector = $detector;

insert into rule_state select $cluster, $detector, rule_version, owed_from_us, $failure from backlog;
