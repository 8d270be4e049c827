-- Replaces classes and prices, for this connection, by those of class_rows and price_rows. Dropped by ledger/totals/drop.sql.
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

create temp table device_price as
select
    c.cluster,
    c.device_id,
    c.profile,
    p.start_us,
    p.end_us,
    p.usd_per_gpu_hour,
    p.currency,
    p.pricing,
    p.sku,
    p.list_price,
    p.contracted_price,
    p.commitment_id
from class_rows c
join price_rows p using (class_id);
