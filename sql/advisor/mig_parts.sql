-- A row is a layout with idle instances, once, and what was waited for, once.
select l.model, l.parts, w.profile
from (select distinct model, parts from mig_layout) l
cross join (select distinct profile from room_wait where profile is not null or gpus * members = 1) w
order by all
limit $limit;
