-- Puts new classes and prices of one cluster, and the teams of team_rows, in place of the old. Prices by device follow (billing/new_price.sql).
-- Day sums are by device class: where a device has changed its class, its days are summed again.
delete from rolled_day
where cluster = $cluster
    and exists (
        select 1
        from device_class o
        join class_rows n on n.device_id = o.device_id and n.profile is not distinct from o.profile
        where o.cluster = $cluster and n.class_id <> o.class_id
    );

delete from device_class where cluster = $cluster;

insert into device_class by name select * from class_rows;

delete from class_price where cluster = $cluster;

insert into class_price by name select * from price_rows;

delete from device_price where cluster = $cluster;

-- Days on which a run has changed its team, or whether a rule decides it, are summed again (store/day_sums/roll_sums.sql).
create or replace temp table moved_day as
select distinct day_us
from book_day
where cluster = $cluster
    and run_id in (
        select n.run_id
        from team_rows n
        left join run_team o on o.cluster = $cluster and o.run_id = n.run_id
        where o.team is distinct from n.team or coalesce(o.inferred, false) <> coalesce(n.inferred, false)
        union all
        select run_id from run_team where cluster = $cluster and run_id not in (select run_id from run where cluster = $cluster)
    );

delete from run_team
where cluster = $cluster
    and (run_id in (select run_id from team_rows) or run_id not in (select run_id from run where cluster = $cluster));

insert into run_team by name select * from team_rows;

delete from priced where cluster = $cluster;

insert into priced values ($cluster, $rate_version, $team_version, $basis);

delete from day_stamp where cluster = $cluster and day_us is null;

insert into day_stamp values ($cluster, null, uuid()::varchar);
