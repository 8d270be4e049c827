-- One row: which sources say where the nodes of a cluster are in the network.
select
    (select count(*) from node where cluster = $cluster and scheduler = 'kubernetes' and labels is not null) > 0 as labels,
    count(*) filter (where level = 'HYPERNODE') > 0 as hypernodes,
    count(*) filter (where level in ('SWITCH', 'BLOCK')) > 0 as switches
from link
where cluster = $cluster;
