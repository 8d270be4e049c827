-- A row of topo_label is a node and its labels during [from_us, until_us).
create or replace temp table topo_label as
with label_record as (
    select n.node, coalesce(t.observed_us, 0) as from_us, max(t.labels) as labels
    from node t
    join topo_name n on n.name = t.node
    where t.cluster = $cluster and t.scheduler = 'kubernetes' and json_valid(t.labels)
    group by all
),
changed as (
    select * from label_record
    qualify labels is distinct from lag(labels) over (partition by node order by from_us)
)
select *, lead(from_us, 1, $end_us) over (partition by node order by from_us) as until_us
from changed;

-- A row of topo_label_kind is a node label, the container whose name it holds, and the tool that writes it.
create or replace temp table topo_label_kind as
select * from (
    values
    ('nvidia.com/gpu.clique', 'nvlink_domain', 'gfd', 20),
    ('accelerator.topograph.run/domain', 'nvlink_domain', 'topograph', 30),
    ('accelerator.topograph.run/sub-domain', 'nvlink_part', 'topograph', 30),
    ('network.topology.nvidia.com/accelerator', 'nvlink_domain', 'topograph', 31),
    ('network.topology.nvidia.com/leaf', 'leaf', 'topograph', 31),
    ('network.topology.nvidia.com/block', 'leaf', 'topograph', 32),
    ('network.topology.nvidia.com/spine', 'spine', 'topograph', 31),
    ('network.topology.nvidia.com/core', 'core', 'topograph', 31),
    ('network.topology.nvidia.com/datacenter', 'core', 'topograph', 32),
    ('topology.k8s.aws/network-node-layer-3', 'leaf', 'aws', 40),
    ('topology.k8s.aws/network-node-layer-2', 'spine', 'aws', 40),
    ('topology.k8s.aws/network-node-layer-1', 'core', 'aws', 40),
    ('topology.k8s.aws/capacity-block-id', 'capacity_block', 'aws', 40),
    ('oci.oraclecloud.com/host.rack_id', 'leaf', 'oci', 40),
    ('oci.oraclecloud.com/host.network_block_id', 'spine', 'oci', 40),
    ('oci.oraclecloud.com/host.hpc_island_id', 'core', 'oci', 40),
    ('cloud.google.com/gce-topology-host', 'host', 'gke', 40),
    ('cloud.google.com/gce-topology-subblock', 'leaf', 'gke', 40),
    ('cloud.google.com/gce-topology-block', 'spine', 'gke', 40),
    ('topology.kubernetes.io/zone', 'zone', 'kubernetes', 45),
    ('topology.kubernetes.io/region', 'region', 'kubernetes', 45)
) as known(label, kind, source, trust)
union all
select 'fabric.topograph.run/tier-' || n, t.kind, 'topograph', 30
from topo_tier t, unnest([t.tier]) as u(n);

insert into topo_containment
select l.node, 'node', l.node, l.labels ->> k.label, k.kind, null, k.source, k.trust, l.from_us, l.until_us, 0
from topo_label l
cross join topo_label_kind k
where coalesce(l.labels ->> k.label, '') <> '';

-- Kueue: the labels of a Topology, outermost first; those that no other source explains are switches, the
-- innermost a leaf. As in Kueue, a domain is identified by the values of all labels down to its own.
insert into topo_containment
with label_level as (
    select a as topology, b as label, (detail ->> 'order')::integer as place, coalesce(observed_us, 0) as at_us
    from link
    where cluster = $cluster and level = 'LEVEL' and json_valid(detail) and b <> 'kubernetes.io/hostname'
),
newest as (
    select distinct topology, label, place
    from label_level
    qualify at_us = max(at_us) over (partition by topology)
),
placed as (
    select
        w.*,
        k.kind,
        row_number() over (partition by w.topology order by w.place desc, w.label) - 1 as tier
    from newest w
    left join topo_label_kind k on k.label = w.label
    where k.kind is null or k.kind in (select kind from topo_tier)
),
valued as (
    select
        p.topology,
        p.tier,
        l.node,
        l.from_us,
        l.until_us,
        string_agg(l.labels ->> w.label, '/' order by w.place) as domain,
        count(*) = count(nullif(l.labels ->> w.label, '')) as whole
    from placed p
    join newest w on w.topology = p.topology and w.place <= p.place
    cross join topo_label l
    where p.kind is null
    group by all
)
select v.node, 'node', v.node, v.domain, t.kind, null, 'kueue', 60, v.from_us, v.until_us, 0
from valued v
join topo_tier t on t.tier = v.tier
where v.whole;
