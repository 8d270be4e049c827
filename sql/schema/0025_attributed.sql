-- What the last attribution of a cluster was made from. With it, the next one reads only the records of the time that changed.

-- A row is a cluster, the settings that its attribution followed, and its first evidence.
create table attributed (
    cluster varchar,
    basis varchar,
    first_us bigint
);

-- A row is the digest of a cluster's allocations (kind claim) or workloads whose latest time is in an hour; -3600000000: without a time.
create table attributed_hour (
    cluster varchar,
    kind varchar,
    hour_us bigint,
    digest varchar
);

-- A row is a run on a device, before it is cut to what the fleet owned of the device.
create table attributed_hold (
    cluster varchar,
    run_id bigint,
    device_id bigint,
    pod_uid varchar,
    start_us bigint,
    end_us bigint,
    declared boolean,
    estimated boolean,
    units bigint
);

-- A row is a node as its schedulers last described it (from_us NULL), or a span in which it was drained or down.
create table attributed_node (
    cluster varchar,
    node varchar,
    from_us bigint,
    to_us bigint,
    devices varchar,
    gpu_model varchar,
    sharing varchar,
    replicas integer
);
