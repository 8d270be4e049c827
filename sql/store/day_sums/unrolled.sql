-- A row is a ledger day of the cluster that is not rolled up and has no hour left to compute.
select day_us
from (
    select unnest(range(min(start_us) // 86400000000, (max(end_us) + 86399999999) // 86400000000)) * 86400000000 as day_us
    from segment
    where cluster = $cluster
)
where day_us not in (select day_us from rolled_day where cluster = $cluster)
    and day_us not in (select hour_us // 86400000000 * 86400000000 from dirty_hour where cluster = $cluster)
order by day_us;
