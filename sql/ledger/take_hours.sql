-- Takes the slice's hours off the queue: they are computed in this transaction.
delete from dirty_hour where cluster = $cluster and hour_us in (select hour_us from slice_hour);
