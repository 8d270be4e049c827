-- A row is a cluster that some source has sent records of.
select cluster from device
union select cluster from node
union select cluster from context
union select cluster from claim
union select cluster from pending
union select cluster from event
order by cluster;
