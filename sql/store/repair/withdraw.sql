-- Deletes what only a wrong clock dated into a span, and takes such times off other records. The ledger follows at the next analysis.
delete from sample where observed_us >= $from_us and observed_us < $until_us;

delete from sample_tail where observed_us >= $from_us and observed_us < $until_us;

delete from sample_origin where observed_us >= $from_us and observed_us < $until_us;

delete from context_span where first_us >= $from_us and first_us < $until_us;

update context_span
set last_us = $from_us - 1
where last_us >= $from_us and last_us < $until_us;

delete from sealed_day
where day_us >= $from_us // 86400000000 * 86400000000 and day_us < $until_us
    and day_us not in (select hour_us // 86400000000 * 86400000000 from context_span);

delete from process_use where hour_us >= $from_us and hour_us < $until_us;

delete from claim where start_us >= $from_us and start_us < $until_us;

update claim set end_us = null where end_us >= $from_us and end_us < $until_us;

update claim set evidence_us = $newest_us where evidence_us >= $from_us and evidence_us < $until_us;

delete from pending where submit_us >= $from_us and submit_us < $until_us;

update pending set start_us = null where start_us >= $from_us and start_us < $until_us;

update pending set evidence_us = $newest_us where evidence_us >= $from_us and evidence_us < $until_us;

delete from node where observed_us >= $from_us and observed_us < $until_us;

delete from queue where observed_us >= $from_us and observed_us < $until_us;

delete from workload where observed_us >= $from_us and observed_us < $until_us;

delete from reservation where observed_us >= $from_us and observed_us < $until_us;

delete from event where last_us >= $from_us and last_us < $until_us;

delete from link where observed_us >= $from_us and observed_us < $until_us;

-- Every hour with derived rows in the span is computed again, and becomes empty where nothing is left.
insert into dirty_hour
select cluster, hour_us from ledger_hour where hour_us + 3600000000 > $from_us and hour_us < $until_us
union
select cluster, hour_us from device_hour where hour_us + 3600000000 > $from_us and hour_us < $until_us
union
select cluster, hour_us from stranding where hour_us + 3600000000 > $from_us and hour_us < $until_us
except
select cluster, hour_us from dirty_hour;

delete from book_day where day_us >= $from_us and day_us < $until_us;

delete from word_day where day_us >= $from_us and day_us < $until_us;

delete from slice_day where day_us >= $from_us and day_us < $until_us;

delete from team_day where day_us >= $from_us and day_us < $until_us;

delete from day_stamp where day_us >= $from_us and day_us < $until_us;

delete from rolled_day where day_us >= $from_us and day_us < $until_us;

delete from asked_day where day_us >= $from_us and day_us < $until_us;

delete from analyzed;
