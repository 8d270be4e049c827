-- A row is a Kubernetes namespace whose label gpuwatch.io/team names its team, as it was seen last.
select cluster, name as namespace, team
from (
    select cluster, name, arg_max(coalesce(detail ->> '$.team', ''), (coalesce(observed_us, 0), coalesce(detail ->> '$.team', ''))) as team
    from queue
    where kind = 'namespace' and scheduler = 'kubernetes'
    group by cluster, name
)
where team <> ''
order by cluster, name;
