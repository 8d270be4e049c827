-- A row is a step of the server's wall clock, the newest first.
select
    at_us,
    shift_us,
    outcome,
    source
from clock_step
order by at_us desc, shift_us;
