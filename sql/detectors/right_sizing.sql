-- A row is an hour of a job on one whole GPU that would fit, by all it did since it began, into something smaller.
-- What fits and what it costs less is decided before (gpuwatch/advisor/right_size.py): smaller_size has a row an hour.
select
    s.chain,
    s.hour_us as start_us,
    least(s.hour_us + 3600000000, h.end_us, $known_until_us) as end_us,
    h.running and least(s.hour_us + 3600000000, h.end_us) >= $known_until_us - $still_us as still,
    [s.device_id] as device_ids,
    0.7 as confidence,
    map {
        'fb_used_max_gib': s.fb_bytes / 1073741824.0,
        'sm_active_max_ratio': s.sm_ratio,
        'dram_active_max_ratio': s.dram_ratio,
        'measured_hours': s.covered_us / 3600e6
    } as numbers,
    map {
        'now': s.model,
        'fits': s.fits,
        'workload_class': s.workload_class,
        'saving_per_hour': s.saving,
        'currency': s.currency
    } as words
from smaller_size s
join (
    select h.chain, max(h.end_us) as end_us, bool_or(not c.ended) as running
    from held h
    join job_chain c using (run_id)
    group by h.chain
) h on h.chain = s.chain
where least(h.end_us, $known_until_us) > s.hour_us
order by start_us, s.chain;
