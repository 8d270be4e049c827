-- Drops new samples of days whose raw samples are gone: with the others of the day missing they cannot be booked.
delete from sample_tail
where observed_us // 86400000000 in (
    select hour_us // 86400000000
    from context_span
    where hour_us // 86400000000 * 86400000000 not in (select day_us from sealed_day)
);
