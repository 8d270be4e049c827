-- A row is a node and a word by which a bill may call it: its name, and labels that hold the host's or instance's.
with labelled as (
    select distinct cluster, node, labels
    from node
    where labels is not null
),
label as (
    select cluster, node, labels, unnest(json_keys(labels)) as key
    from labelled
)
select distinct cluster, node, node as word
from device
where node is not null
union
select cluster, node, json_extract_string(labels, '$."' || replace(key, '"', '') || '"')
from label
where regexp_matches(key, '(hostname|(instance|vm|provider|machine)[-_.]?(id|name)|providerid)$', 'i')
order by all;
