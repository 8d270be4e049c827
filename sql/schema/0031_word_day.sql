-- A row of word_day is of runs of one kind of work (views/work_kind.sql) too, whose team a rule decides for all or for none: a question
-- for either reads one of them. Days that were rolled before are rolled again.
delete from rolled_day;
