-- Moves the stored results of jobs to the new beginning of their chains of runs.
update verdict v
set cause_us = r.new_us
from relinked r
where v.cluster = $cluster and v.detector = r.detector and v.subject_kind = 'job' and v.subject_id = r.subject_id
    and v.cause_us = r.old_us;

update verdict_claim v
set cause_us = r.new_us
from relinked r
where v.cluster = $cluster and v.detector = r.detector and v.subject_kind = 'job' and v.subject_id = r.subject_id
    and v.cause_us = r.old_us;

update granted_claim v
set cause_us = r.new_us
from relinked r
where v.cluster = $cluster and v.detector = r.detector and v.subject_kind = 'job' and v.subject_id = r.subject_id
    and v.cause_us = r.old_us;
