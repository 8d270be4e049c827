-- A row of held_share is a run that holds shares of a device (Slurm's shards, MPS), and how many: those on several devices of a
-- node are spread evenly. `sure`: how many shares the device has is known.
create or replace temp table held_share as
with held as (
    select distinct h.run_id, h.device_id, w.node, w.shares, w.replicas is not null as sure, d.gpu_index
    from hold h
    join new_device d using (device_id)
    join wanted w on w.run_id = h.run_id and w.shares is not null and coalesce(w.node = d.node, true)
),
numbered as (
    select
        *,
        count(*) over (partition by run_id, node) as devices,
        row_number() over (partition by run_id, node order by gpu_index, device_id) as place
    from held
)
select
    run_id,
    device_id,
    greatest(max(shares // devices + case when place <= shares % devices then 1 else 0 end), 1)::bigint as shares,
    bool_and(sure) as sure
from numbered
group by run_id, device_id;

-- A row of share_count is a node of Slurm's on which a GPU has so many shares: who holds it whole holds all of them.
create or replace temp table share_count as
select node, replicas
from site
where replicas > 1
    and node in (select node from node_record where scheduler = 'slurm')
    and node not in (select node from node_record where scheduler = 'kubernetes');

-- A row of placed_hold is a hold cut to what the fleet owned of its device.
create or replace temp table placed_hold as
select
    h.run_id,
    h.device_id,
    h.pod_uid,
    h.declared,
    h.estimated or not coalesce(k.sure, true) as estimated,
    case when f.shared then 10000 else coalesce(f.units, 10000) end as units,
    coalesce(k.shares, r.replicas, 1) as parts,
    k.shares is not null as shares,
    h.start_us as held_us,
    greatest(h.start_us, c.start_us) as start_us,
    least(h.end_us, c.end_us) as end_us
from hold h
left join fraction_unit f on f.run_id = h.run_id and f.pod_uid is not distinct from h.pod_uid
left join held_share k on k.run_id = h.run_id and k.device_id = h.device_id
left join new_device d on d.device_id = h.device_id
left join share_count r on r.node = d.node
join capacity_span c
    on c.device_id = h.device_id and not c.remainder and h.start_us < c.end_us and h.end_us > c.start_us;

-- A row of placed_inner is what an inner run holds of what its outer run holds, cut alike.
create or replace temp table placed_inner as
select
    h.* replace (greatest(h.start_us, c.start_us) as start_us, least(h.end_us, c.end_us) as end_us)
from inner_hold h
join capacity_span c
    on c.device_id = h.device_id and not c.remainder and h.start_us < c.end_us and h.end_us > c.start_us;

-- A row of device_outage is an outage of the node that a device was on; to_us is NULL while it lasts.
create or replace temp table device_outage as
with place as (
    select device_id, node, null::bigint as from_us, null::bigint as to_us
    from new_device
    where gpu not in (select gpu from stay)
    union all
    select d.device_id, t.node, t.from_us, t.to_us
    from new_device d
    join slot_turn t on t.gpu = d.gpu and t.moved
)
select p.device_id, greatest(o.from_us, p.from_us) as from_us, least(o.to_us, p.to_us) as to_us
from outage o
join place p using (node)
where o.from_us < coalesce(p.to_us, o.from_us + 1) and coalesce(o.to_us > p.from_us, true);

-- A row of silent is a span in which a device gave no samples while its cluster did: after the last of a vanished device,
-- and after the last of a slice until another layout takes its place. Up to three intervals do not count as silence:
-- the newest sample may still arrive.
create or replace temp table silent as
select n.device_id, n.last_us + n.last_interval_us // 2 as start_us, o.end_us
from seen n
join owned_gpu o using (gpu)
where n.gi = -1
    and o.end_us > n.last_us + 3 * n.last_interval_us
    and not exists (
        select 1 from seen slice where slice.gpu = n.gpu and slice.gi >= 0 and slice.last_us > n.last_us
    )
union all
select l.device_id, l.last_us + n.last_interval_us // 2, l.end_us
from slice_life l
join seen n using (device_id)
where l.end_us > l.last_us + 3 * n.last_interval_us;

delete from silent where end_us <= start_us;
