-- Adds the holds that were placed by count.
insert into hold by name select * from placed_rows;
