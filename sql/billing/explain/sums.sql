-- A row is a GPU model, profile, share and price of a charge: its devices, lines and sums.
with price as (
    select * from priced_unit qualify row_number() over (partition by kind_id order by start_us) = 1
)
select
    p.gpu_model,
    u.profile as mig_profile,
    l.share_num,
    l.share_den,
    p.usd_per_gpu_hour,
    p.currency,
    p.pricing,
    count(*) as lines,
    count(distinct l.unit_id) as devices,
    sum(l.device_us)::bigint as device_us,
    sum(l.units)::varchar as units,
    sum(l.amount)::varchar as amount
from charge_line l
join unit u on u.unit_id = l.unit_id
join price p on p.kind_id = l.kind_id
group by all
order by
    sum(l.amount) desc,
    sum(l.units) desc,
    p.gpu_model,
    mig_profile,
    l.share_num,
    l.share_den,
    p.usd_per_gpu_hour,
    p.currency,
    p.pricing
limit $limit;
