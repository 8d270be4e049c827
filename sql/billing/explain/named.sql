-- A row of named_row is a published row of the words of a charge, of any kind and cause.
create or replace temp table named_row as
select k.*, r.micros, r.cents
from rounded r
join keyed k on k.key = r.key
where r.shown
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
