-- A row of run_factor is a run that a policy lets pay less: see run_factor.sql.
create or replace temp table run_factor (policy integer, run_id bigint, factor integer);

-- A row of cell is a UTC day of the time of devices of one kind that one owner, or none, held: their share units in each bucket
-- that is charged alike. part: 0 the whole day, 1 from midnight to the start of the window, 2 from midnight to its end.
-- place: cluster, pool and model as one number.
create or replace temp table cell (
    part integer,
    day_us bigint,
    policy integer,
    held boolean,
    owner varchar,
    user varchar,
    queue varchar,
    namespace varchar,
    account varchar,
    job varchar,
    words varchar,
    devices varchar,
    factor integer,
    place ubigint,
    cluster varchar,
    pool varchar,
    gpu_model varchar,
    mig_profile varchar,
    slice varchar,
    currency varchar,
    lacks boolean,
    price hugeint,
    asleep_units hugeint,
    active_units hugeint,
    paid_units hugeint,
    schedulable_units hugeint,
    stranded_units hugeint,
    out_of_service_units hugeint,
    mig_remainder_units hugeint
);
