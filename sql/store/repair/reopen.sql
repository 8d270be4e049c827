-- Has an hour of a cluster computed again although its samples are lost: its ledger does not close.
delete from ledger_hour where cluster = $cluster and hour_us = $hour_us;

delete from lost_hour where cluster = $cluster and hour_us = $hour_us;

insert into dirty_hour
select $cluster, $hour_us
where not exists (select 1 from dirty_hour where cluster = $cluster and hour_us = $hour_us);

delete from analyzed where cluster = $cluster;
