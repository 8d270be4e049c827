-- Days with hours that changed are read from segments and hours until they are rolled again.
delete from rolled_day
where cluster = $cluster
    and day_us in (select hour_us // 86400000000 * 86400000000 from dirty_hour where cluster = $cluster);
