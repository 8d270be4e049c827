-- A row is a model, a MIG profile as its exporter prints it, and how many measured slices carry that name.
select cluster, any_value(node) as node, model, profile, count(*) as slices
from device
where gi >= 0 and measured and profile is not null
group by cluster, model, profile
order by all;
