-- Days with recomputed hours are read from those hours until they are rolled up again.
delete from rolled_day
where cluster = $cluster and day_us <= $until_us and day_us + 86400000000 > $from_us;
