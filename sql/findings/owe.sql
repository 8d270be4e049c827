-- Notes that a rule owes its verdicts since an instant, or since an earlier one that it owes already.
create or replace temp table owing as
select any_value(rule_version) as rule_version, least(min(owed_from_us), $from_us) as owed_from_us
from rule_state
where cluster = $cluster and detector = $detector;

delete from rule_state where cluster = $cluster and detector = $detector;

insert into rule_state select $cluster, $detector, rule_version, owed_from_us, $failure from owing;

drop table owing;
