-- A row of new_result is the result of a rule for one subject in one span; claims: the time it counts as wasted.
create or replace temp table new_result as
select
    *,
    null::struct(device_id bigint, run_id bigint, hour_us bigint, bucket varchar, us bigint)[] as claims
from verdict
where false;
