-- Daily sums know slices that only their scheduler reports: the days of clusters with such slices are rolled up again.
delete from rolled_day
where cluster in (select cluster from device where gi < 0 and profile is not null);
