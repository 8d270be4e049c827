-- A row is how many records a cluster's topology may be derived from: where that is as it was, nothing new was said.
select
    $version
    || ' link ' || (select count(*) || ',' || coalesce(max(observed_us), 0) from link where cluster = $cluster)
    || ' node ' || (select count(*) || ',' || coalesce(max(observed_us), 0) from node where cluster = $cluster)
    || ' context ' || (select count(*) from context where cluster = $cluster) as counts;
