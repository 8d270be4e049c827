-- Deletes the derived rows of the slice's hours before they are written again.
delete from device_minute where cluster = $cluster and hour_us in (select hour_us from slice_hour);

delete from device_window where cluster = $cluster and hour_us in (select hour_us from slice_hour);

delete from device_hour where cluster = $cluster and hour_us in (select hour_us from slice_hour);

delete from ledger_hour where cluster = $cluster and hour_us in (select hour_us from slice_hour);

delete from idle_span where cluster = $cluster and hour_us in (select hour_us from slice_hour);

delete from workload_hour where cluster = $cluster and hour_us in (select hour_us from slice_hour);
