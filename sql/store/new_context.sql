-- Adds the label sets of batch_rows that the store does not know yet.
insert into context by name
select * from batch_rows
where context_id not in (select context_id from context)
qualify row_number() over (partition by context_id) = 1;
