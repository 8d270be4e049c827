-- The tables of sets.sql where one set of thresholds holds for everybody: nothing is looked for.
create or replace temp table rule_set_run (run_id bigint, number integer);

create or replace temp table rule_set_device (device_id bigint, number integer);
