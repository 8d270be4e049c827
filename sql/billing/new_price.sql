-- A row is a device and a span with one price, by the new classes and prices (class_rows and price_rows).
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
