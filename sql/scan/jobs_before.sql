-- The one row says how many runs touch the window, and how many jobs ended before it, from when to when.
select
    count(*) filter (where coalesce(end_us, $end_us) > $start_us and start_us < $end_us) as within,
    count(distinct (cluster, scheduler, job_id)) filter (where end_us <= $start_us) as earlier,
    min(start_us) filter (where end_us <= $start_us) as first_us,
    max(end_us) filter (where end_us <= $start_us) as last_us
from run;
