-- Which making of the sums of whole days, and of the prices, the books stand on.

-- A row is a rolled day of a cluster, or (day_us NULL) its prices and teams, and a name that no other making of them has.
create table day_stamp (
    cluster varchar,
    day_us bigint,
    stamp varchar
);

insert into day_stamp
select cluster, day_us, uuid()::varchar from rolled_day
union all
select cluster, null, uuid()::varchar from priced;
