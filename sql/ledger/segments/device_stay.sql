-- Replaces the spans of moved GPUs on their nodes, where they differ.
create or replace temp table new_device_stay as
with here as (
    select gpu, node, coalesce(from_us, 0) as from_us
    from slot_turn
    where moved and gpu in (select gpu from stay group by gpu having count(distinct node) > 1)
)
select
    $cluster as cluster,
    d.device_id,
    h.node,
    h.from_us,
    lead(h.from_us, 1, 9223372036854775807) over (partition by d.device_id order by h.from_us) as to_us
from here h
join new_device d using (gpu);

delete from device_stay where cluster = $cluster
    and exists (from device_stay where cluster = $cluster except from new_device_stay);

insert into device_stay
from new_device_stay
except
from device_stay;
