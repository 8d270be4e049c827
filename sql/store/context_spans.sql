-- The contexts of a sealed day's hours where no device has several in an hour: one row each, as store/context_turns.sql has them.
insert into context_span
select device_id, context_id, hour_us, first_us, last_us, samples, false, false
from labelled;
