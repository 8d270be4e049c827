-- The one row is the sum of the published rows with the id of a charge; rows: how many these are. first_us, cluster
-- and the others name what lacks a rate. Needs named_row.
select
    count(*) as rows,
    coalesce(sum(units), 0)::varchar as units,
    coalesce(sum(amount), 0)::varchar as amount,
    coalesce(sum(micros), 0)::varchar as micros,
    coalesce(sum(cents), 0)::varchar as cents,
    min(first_us) as first_us,
    min(cluster) as cluster,
    min(pool) as pool,
    min(gpu_model) as gpu_model,
    min(mig_profile) as mig_profile
from named_row
where kind = $kind and cause is not distinct from $cause and lacks = ($currency is null);
