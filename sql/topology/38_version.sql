-- A row of topo_version is a container of a child during [from_us, until_us); since_us: since when nothing contradicts it.
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
