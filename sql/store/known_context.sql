-- A row is a label set that the store knows, and its cluster.
select
    context_id,
    cluster
from context
order by context_id;
