-- What schedulers say beyond who holds what: queues and quotas, gangs, reservations.

alter table claim add column fraction double;

-- What a run inside another says itself, as a JSON object of labels, queue, namespace, account and user_name: the columns of
-- those names hold what it has from the outer run too. NULL: it is in no other.
alter table run add column own varchar;

-- A row is what a scheduler said about one queue, quota or priority at one instant (model.QUEUE).
create table queue (
    cluster varchar,
    scheduler varchar,
    kind varchar,
    name varchar,
    namespace varchar,
    parent varchar,
    flavor varchar,
    observed_us bigint,
    state varchar,
    priority bigint,
    weight double,
    quota varchar,
    quota_max varchar,
    lend_max varchar,
    used varchar,
    borrowed varchar,
    pending_count integer,
    running_count integer,
    preemption varchar,
    detail varchar
);

-- A row is what a scheduler said about one gang, queued workload or application at one instant (model.WORKLOAD).
create table workload (
    cluster varchar,
    scheduler varchar,
    kind varchar,
    uid varchar,
    name varchar,
    namespace varchar,
    job_id varchar,
    queue varchar,
    cluster_queue varchar,
    priority_class varchar,
    priority bigint,
    pod_count integer,
    min_count integer,
    device_count integer,
    profile varchar,
    gpu_type varchar,
    submit_us bigint,
    reserved_us bigint,
    admitted_us bigint,
    start_us bigint,
    evicted_us bigint,
    end_us bigint,
    evictions integer,
    preemptions integer,
    state varchar,
    reason varchar,
    message varchar,
    user_name varchar,
    placement varchar,
    labels varchar,
    detail varchar,
    observed_us bigint
);

-- A row is nodes that a scheduler keeps for somebody (model.RESERVATION).
create table reservation (
    cluster varchar,
    scheduler varchar,
    name varchar,
    observed_us bigint,
    start_us bigint,
    end_us bigint,
    nodes varchar,
    device_count integer,
    gpu_type varchar,
    accounts varchar,
    users varchar,
    queue varchar,
    state varchar,
    flags varchar
);
