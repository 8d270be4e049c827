-- A row of starved_word is a wait: which jobs blocked it in its last hour, and what would have had to move.
create or replace temp table starved_word as select * from word_row;
