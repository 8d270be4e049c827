-- Puts new prices and teams of one cluster in place of the old.
delete from device_price where cluster = $cluster;

insert into device_price by name select * from price_rows;

delete from run_team where cluster = $cluster;

insert into run_team by name select * from team_rows;

delete from priced where cluster = $cluster;

insert into priced values ($cluster, $rate_version, $team_version);
