-- The one row is the sum of the published rows with the id of a charge; rows: how many these are. first_us, cluster
-- and the others name what lacks a rate.
select
    count(*) as rows,
    coalesce(sum(k.units), 0)::varchar as units,
    coalesce(sum(k.amount), 0)::varchar as amount,
    coalesce(sum(r.micros), 0)::varchar as micros,
    coalesce(sum(r.cents), 0)::varchar as cents,
    min(k.first_us) as first_us,
    min(k.cluster) as cluster,
    min(k.pool) as pool,
    min(k.gpu_model) as gpu_model,
    min(k.mig_profile) as mig_profile
from rounded r
join keyed k on k.key = r.key
where r.shown
    and k.kind = $kind
    and k.cause is not distinct from $cause
    and k.lacks = ($currency is null)
    and k.currency is not distinct from $currency
    and (not $by_team or k.team is not distinct from $of_team)
    and (not $by_user or k.user is not distinct from $of_user)
    and (not $by_queue or k.queue is not distinct from $of_queue)
    and (not $by_namespace or k.namespace is not distinct from $of_namespace)
    and (not $by_account or k.account is not distinct from $of_account)
    and (not $by_job or k.job is not distinct from $of_job)
    and (not $by_gpu_model or k.gpu_model is not distinct from $of_gpu_model)
    and (not $by_mig_profile or k.mig_profile is not distinct from $of_mig_profile)
    and (not $by_slice or k.slice is not distinct from $of_slice)
    and (not $by_cluster or k.cluster is not distinct from $of_cluster)
    and (not $by_pool or k.pool is not distinct from $of_pool);
