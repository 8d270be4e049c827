-- Where GPUs are and what links them, derived from links, node labels and samples; versioned by time. No version of a
-- thing overlaps another.

-- A row is a container (parent) round a GPU, network card, node or other container (child), while that held. bandwidth:
-- GB/s per direction and GPU between two GPUs that have this parent in common and nothing nearer; NULL unknown.
-- nearest: no other container lies between the two. observed_us: when this version was first told, NULL undated.
-- valid_from_us NULL: nothing earlier says otherwise; valid_until_us NULL: it still holds.
create table topology_edge (
    cluster varchar,
    child varchar,
    child_kind varchar,
    parent varchar,
    parent_kind varchar,
    node varchar,
    level varchar,
    bandwidth_gb_per_s double,
    nearest boolean,
    source varchar,
    observed_us bigint,
    valid_from_us bigint,
    valid_until_us bigint
);

-- A row is two GPUs of one node (a before b) and the level between them (NV18, PIX, ..., SYS), while that held.
create table topology_pair (
    cluster varchar,
    node varchar,
    a varchar,
    b varchar,
    level varchar,
    bandwidth_gb_per_s double,
    source varchar,
    observed_us bigint,
    valid_from_us bigint,
    valid_until_us bigint
);

-- A row is a node that a less trusted source puts together with others than the graph does: its container there
-- (told), and the one in the graph (parent).
create table topology_conflict (
    cluster varchar,
    child varchar,
    parent_kind varchar,
    parent varchar,
    source varchar,
    told varchar,
    told_source varchar
);

-- A row says from which inputs a cluster's topology was derived: what they say, and how many records said it.
create table topology_state (
    cluster varchar,
    inputs varchar,
    counts varchar
);
