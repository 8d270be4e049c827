-- A row of touched_subject is a subject of a rule under test.
create or replace temp table touched_subject as
select distinct subject_kind, subject_id, cause_us from new_result;
