-- Adds a step of the clock; only the newest are kept.
insert into clock_step values ($at_us, $shift_us, $outcome, $source);

delete from clock_step
where rowid in (select rowid from clock_step order by at_us desc, rowid desc offset $most);
