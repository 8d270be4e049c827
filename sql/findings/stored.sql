-- A row is a detector with stored results for a cluster, and since when its oldest open finding has lasted.
select
    detector,
    min(started_us) filter (where state = 'open') as open_from_us
from (
    select detector, started_us, state from finding where cluster = $cluster
    union all
    select distinct detector, null, null from verdict where cluster = $cluster
    union all
    select distinct detector, null, null from unjudged where cluster = $cluster
)
group by detector;
