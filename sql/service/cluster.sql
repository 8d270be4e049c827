-- A row is a cluster with devices.
select distinct cluster from device order by cluster;
