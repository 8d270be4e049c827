-- Drops new samples of days whose raw samples are deleted: without the rest of the day they cannot be used.
delete from sample_tail
where observed_us // 86400000000 in (
    select hour_us // 86400000000
    from context_span
    where hour_us // 86400000000 * 86400000000 not in (select day_us from sealed_day)
);
