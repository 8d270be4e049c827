-- A row of new_verdict is what a rule says now of one subject in one span; claims: what it says is wasted.
create or replace temp table new_verdict as
select
    *,
    null::struct(device_id bigint, run_id bigint, hour_us bigint, bucket varchar, us bigint)[] as claims
from verdict
where false;
