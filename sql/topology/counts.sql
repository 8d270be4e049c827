-- A row is the number of records a cluster's topology is derived from; an unchanged number means that no records were added.
select
    $version
    || ' link ' || (select count(*) || ',' || coalesce(max(observed_us), 0) from link where cluster = $cluster)
    || ' node ' || (select count(*) || ',' || coalesce(max(observed_us), 0) from node where cluster = $cluster)
    || ' context ' || (select count(*) from context where cluster = $cluster) as counts;
