-- One row: which sources report the network location of a cluster's nodes, and whether any reports links.
select
    (select count(*) from node where cluster = $cluster and scheduler = 'kubernetes' and labels is not null) > 0 as labels,
    count(*) > 0 as links,
    count(*) filter (where level = 'HYPERNODE') > 0 as hypernodes,
    count(*) filter (where level in ('SWITCH', 'BLOCK')) > 0 as switches
from link
where cluster = $cluster;
