-- Notes by which thresholds a rule has judged.
delete from rule_state where cluster = $cluster and detector = $detector;

insert into rule_state values ($cluster, $detector, $rule_version, null, null);
