-- The empty table of billing/run_word.sql: planning that query costs more than this where nothing is asked of runs.
create or replace temp table run_word (run_id bigint, words varchar);
