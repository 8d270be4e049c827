-- The one row is what the money of a window is counted in: denominators of shares, and every price as text.
select
    (select list(distinct share_den) from segment where start_us < $end_us and end_us > $start_us) as share_dens,
    (
        select list(distinct price)
        from (
            select unnest([usd_per_gpu_hour, list_price, contracted_price, base_price]) as price
            from class_price
            where start_us < $end_us and end_us > $start_us
        )
        where price is not null
    ) as prices,
    (select min(start_us) from segment where start_us < $end_us and end_us > $start_us) as first_us,
    (select max(end_us) from segment where start_us < $end_us and end_us > $start_us) as last_us;
