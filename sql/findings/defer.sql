-- Adds the time since an instant to the backlog of rules, or leaves the earlier instant that is there.
create or replace temp table backlog as
select
    name as detector,
    any_value(s.rule_version) as rule_version,
    least(min(s.owed_from_us), $from_us) as owed_from_us
from (select unnest($detectors::varchar[]) as name)
left join rule_state s on s.cluster = $cluster and s.detector = name
group by name;

delete from rule_state where cluster = $cluster and list_contains($detectors::varchar[], detector);

insert into rule_state
select $cluster, detector, rule_version, owed_from_us, $failure
from backlog;
