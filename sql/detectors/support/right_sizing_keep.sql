-- A row of smaller_size is an hour of a job that would have fitted into something smaller, and what that costs less.
create or replace temp table smaller_size as
select * from smaller_size_row;
