-- Records the thresholds that rules were evaluated with.
delete from rule_state where cluster = $cluster and list_contains($detectors::varchar[], detector);

insert into rule_state
select $cluster, unnest($detectors::varchar[]), unnest($versions::varchar[]), null, null;
