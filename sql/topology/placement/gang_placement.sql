-- A row of gang_placement is a gang that lies farther than it had to, and where it could have been.
create or replace temp table gang_placement as
select * from placed_gang;
