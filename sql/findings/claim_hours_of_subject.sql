-- Adds the hours of all claims of the touched subjects: a condition that has become a finding, or is one no more, claims all of
-- its time, or none.
insert into claim_hour
select distinct hour_us
from verdict_claim
where detector = $detector and cluster = $cluster
    and (subject_kind, subject_id) in (select (subject_kind, subject_id) from touched_subject);
