-- Removes the earlier results of a rule for what it evaluates again, and records the subjects and hours this affects.
-- $mode: hours (rows that begin in the window), runs (the chains of job_chain, jobs and runs that no longer exist, and all other
-- subjects), all.
create or replace temp table old_result as
select rowid as number, subject_kind, subject_id, cause_us, start_us
from verdict
where detector = $detector and cluster = $cluster
    and case $mode
        when 'hours' then start_us >= $since_us and start_us < $until_us
        when 'runs' then (subject_id, cause_us) in (select (job_id, chain_start_us) from job_chain)
            or run_id in (select run_id from job_chain)
            or subject_kind <> 'job'
            or subject_id in (select job_id from lost_subject where job_id is not null)
            or run_id in (select run_id from lost_subject where run_id is not null)
        else true
    end;

insert into claim_hour
select distinct c.hour_us
from verdict_claim c
join old_result o
    on o.subject_kind = c.subject_kind and o.subject_id = c.subject_id and o.cause_us is not distinct from c.cause_us
    and o.start_us = c.verdict_us
where c.detector = $detector and c.cluster = $cluster;

delete from verdict_claim
where detector = $detector and cluster = $cluster
    and (subject_kind, subject_id, coalesce(cause_us, -1), verdict_us) in (
        select (subject_kind, subject_id, coalesce(cause_us, -1), start_us) from old_result
    );

delete from verdict where rowid in (select number from old_result);
