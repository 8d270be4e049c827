-- Replaces classes and prices, for this connection, by those of class_rows and price_rows. Dropped by ledger/totals/drop.sql.
-- Prices by device are those of billing/new_price.sql.
-- Day sums are by device class: in a cluster where a device changes its class, no day counts as summed.
create temp table rolled_day as
select *
from rolled_day
where cluster not in (
    select o.cluster
    from device_class o
    join class_rows n
        on n.cluster = o.cluster and n.device_id = o.device_id and n.profile is not distinct from o.profile
    where n.class_id <> o.class_id
);

create temp table device_class as select * from class_rows;

create temp table class_price as select * from price_rows;
