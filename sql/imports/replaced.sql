-- A row is an earlier import of the same file with another time zone, or of the same path for another cluster.
select file_id
from import_file
where digest = $digest and kind = $kind and file_id <> $file_id and traced
    and ((cluster = $cluster and zone <> $zone) or (cluster <> $cluster and place = $place))
order by file_id;
