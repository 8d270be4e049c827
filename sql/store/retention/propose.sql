-- Stores which data this retention run found to be past its retention, for the next run to compare with.
delete from retention_bound;

insert into retention_bound values ($raw_until_us, $minute_until_us);
