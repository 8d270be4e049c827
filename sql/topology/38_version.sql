-- A row of topo_version is a container round a child during [from_us, until_us); since_us: from when on nothing says otherwise.
create or replace temp table topo_version (
    child varchar,
    child_kind varchar,
    parent_kind varchar,
    parent varchar,
    level varchar,
    source varchar,
    node varchar,
    from_us bigint,
    until_us bigint,
    since_us bigint
);
