-- A row is a name of a run, by the kind of ownership rule that would match it; for labels, all labels of a run as JSON.
select distinct kind, value
from (
    select unnest(['queue', 'namespace', 'account', 'user', 'labels', 'own']) as kind,
        unnest([queue, namespace, account, user_name, labels, own]) as value
    from run
)
where value is not null and value <> ''
order by kind, value;
