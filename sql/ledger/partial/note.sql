-- Notes what this attribution was made from.
delete from attributed where cluster = $cluster;

insert into attributed
select $cluster, $basis, start_us from fleet_span;

delete from attributed_hour
where cluster = $cluster and (kind, hour_us) in (select (kind, hour_us) from changed_hour);

insert into attributed_hour
select $cluster, kind, hour_us, digest
from hour_digest
where (kind, hour_us) in (select (kind, hour_us) from changed_hour);

delete from attributed_hold
where cluster = $cluster and (not $partial or start_us >= $from_us or run_id in (select run_id from read_run));

insert into attributed_hold
select $cluster as cluster, * from whole_hold order by start_us, run_id, device_id;

delete from attributed_node where cluster = $cluster;

insert into attributed_node
select $cluster as cluster, * from whole_node;
