-- Takes away every derived row of the slice's dirty hours of one cluster: they are written anew.
delete from device_minute where cluster = $cluster and hour_us in (select hour_us from slice_hour);

delete from device_window where cluster = $cluster and hour_us in (select hour_us from slice_hour);

delete from device_hour where cluster = $cluster and hour_us in (select hour_us from slice_hour);

delete from ledger_hour where cluster = $cluster and hour_us in (select hour_us from slice_hour);

delete from idle_span where cluster = $cluster and hour_us in (select hour_us from slice_hour);

delete from dirty_hour where cluster = $cluster and hour_us in (select hour_us from slice_hour);

delete from workload_hour where cluster = $cluster and hour_us in (select hour_us from slice_hour);
