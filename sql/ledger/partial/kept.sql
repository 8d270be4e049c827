-- A row of kept is something that was attributed before and is not derived again from a part of the records. device: one that no
-- sample names and that a run held before $from_us. node: the evidence of its node, of the time before. capacity: since when
-- a GPU was owned. fleet: since when the cluster is known.
create or replace temp table kept as
select 'device' as kind, device_id, node, gpu, gpu_index, null::bigint as start_us, null::bigint as end_us
from device
where cluster = $cluster and not measured
    and device_id in (select device_id from attributed_hold where cluster = $cluster and start_us < $from_us)
union all
select 'node', null, d.node, null, null, min(c.start_us), max(least(c.end_us, $from_us - 1))
from device d
join capacity c on c.cluster = d.cluster and c.device_id = d.device_id
where d.cluster = $cluster and not d.measured
group by d.node
union all
select 'capacity', device_id, null, null, null, start_us, null from capacity where cluster = $cluster
union all
select 'fleet', null, null, null, null, first_us, null from attributed where cluster = $cluster;

-- A row of read_key is a run of read_claim.
create or replace temp table read_key as
select distinct
    ('0x' || substr(md5(concat_ws(chr(31), cluster, scheduler, job_id, run_key)), 1, 15))::bigint as run_id
from read_claim;
