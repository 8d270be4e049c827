-- A row of mig_serve is a layout and what is waited for (NULL: a whole GPU): how many of it fit if its idle instances go.
create or replace temp table mig_serve as select * from serve_row;
