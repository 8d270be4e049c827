-- A row of room_wait is a span in which a request (`wait`) waited for room, for long enough, and the pools it may use
-- ('': that of devices without one).
create or replace temp table room_wait as
select dense_rank() over (order by members * gpus desc, submit_us, job_id, shape, profile, pools) as wait, *
from wait_row;

-- A row of room_fit is a node (or a GPU without one) that the requests with this `fit` may use.
create or replace temp table room_fit as select * from fit_row;
