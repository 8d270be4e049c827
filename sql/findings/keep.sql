-- Stores the new results of a rule: new_result and new_claim become rows of verdict and verdict_claim.
insert into verdict by name
select * exclude (claims) from new_result order by subject_kind, subject_id, start_us;

insert into verdict_claim by name
select * from new_claim order by hour_us, device_id;

insert into claim_hour
select distinct hour_us from new_claim;

-- A row of touched_subject is a subject that gained or lost a result.
create or replace temp table touched_subject as
select distinct subject_kind, subject_id, cause_us from old_result
union
select distinct subject_kind, subject_id, cause_us from new_result
union
select distinct 'job', subject_id, unnest([old_us, new_us]) from relinked where detector = $detector;
