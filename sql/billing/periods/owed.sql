-- The one row counts hours of a window whose samples are not in the ledger yet.
select
    (select count(*) from dirty_hour where hour_us >= $start_us and hour_us < $end_us)
    + (
        select count(distinct observed_us // 3600000000)
        from sample_tail
        where observed_us >= $start_us and observed_us < $end_us
    ) as hours;
