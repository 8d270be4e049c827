-- Views of new classes and prices of devices (class_rows and price_rows, one cluster or several).
-- A row of changed_class is a cluster in which a device changes its class: the sums of its days are by class, and no longer hold.
create or replace temp view changed_class as
select distinct o.cluster
from device_class o
join class_rows n on n.cluster = o.cluster and n.device_id = o.device_id and n.profile is not distinct from o.profile
where n.class_id <> o.class_id;

-- A row of new_price is a device and a span with one price.
create or replace temp view new_price as
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
