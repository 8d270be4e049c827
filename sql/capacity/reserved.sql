-- A row is a reservation of Slurm's nodes that touches [$from_us, $until_us), by its last record, and how many GPUs these nodes
-- have. Of a reservation that is seen no more, nothing is known later than $fresh_us after that record.
with last_record as (
    select
        name,
        start_us,
        arg_max(struct_pack(nodes, users, accounts, flags, device_count, end_us), coalesce(observed_us, 0)) as r,
        max(observed_us) as seen_us
    from reservation
    where cluster = $cluster and scheduler = 'slurm' and start_us < $until_us
    group by name, start_us
),
gpu as (
    select node, count(distinct gpu) as gpus
    from device
    where cluster = $cluster and node is not null and kind is null
    group by node
)
select
    start_us,
    least(r.end_us, coalesce(seen_us + $fresh_us, r.end_us)) as end_us,
    r.nodes as nodes,
    r.users as users,
    r.accounts as accounts,
    r.flags as flags,
    r.device_count as device_count,
    coalesce((select sum(gpus) from gpu where list_contains(string_split(r.nodes, ','), node)), 0)::bigint as node_gpus
from last_record
where r.nodes is not null and r.end_us > $from_us
    and least(r.end_us, coalesce(seen_us + $fresh_us, r.end_us)) > $from_us
order by start_us, name;
