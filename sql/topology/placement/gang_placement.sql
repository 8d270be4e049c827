-- A row of gang_placement is a gang placed farther apart than necessary, and the better place.
create or replace temp table gang_placement as
select * from placed_gang;
