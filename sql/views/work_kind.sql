-- What kind of work a run is, in one expression: 'session' (somebody types), 'service' (answers requests), 'batch' (ends by itself), or
-- 'other' where nothing says so. Needs is_session and needs_steady. Pods of a Deployment are named after its replica set: a hash of 8
-- to 10 letters without vowels, then five more; those of a Job end with five letters of the same kind.
create or replace temp macro work_kind(scheduler, labels, queue, namespace, name) as
case
    when is_session(labels, queue, name)
        or regexp_matches(lower(coalesce(namespace, '')), '(^|[-_.])(notebooks?|jupyter(hub)?)($|[-_.])')
        then 'session'
    when needs_steady(labels, name) = 'serves'
        or regexp_matches(coalesce(name, ''), '-[bcdfghjklmnpqrstvwxz2456789]{8,10}-[bcdfghjklmnpqrstvwxz2456789]{5}$')
        then 'service'
    when scheduler is distinct from 'kubernetes' or labels is not null
        or regexp_matches(coalesce(name, ''), '-[bcdfghjklmnpqrstvwxz2456789]{5}$')
        then 'batch'
    else 'other'
end;
