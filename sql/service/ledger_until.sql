-- The end of the ledger: the newest sample, or without any sample the end of the last computed hour.
select
    coalesce(
        (select max(last_us) from context_span where last_us <= $now_us),
        (select least(max(hour_us) + 3600000000, $now_us) from ledger_hour where hour_us <= $now_us)
    ) as until_us;
