-- A row is a slice_used, in order.
select
    key,
    hoarded_us::varchar as hoarded_us,
    gr_engine_ratio,
    sm_active_ratio,
    tensor_active_ratio,
    dram_active_ratio,
    fb_used_bytes
from slice_used
order by key;
