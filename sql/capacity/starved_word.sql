-- A row of starved_word says who stood in the way of a wait in the last hour of it, and what would have had to move.
create or replace temp table starved_word as select * from word_row;
