-- What of the free time the usual requests could not have used.

-- A row is a state of a node (its free GPUs of one model) within one hour, and the GPUs of it with so much free: `gpus` of them
-- with `milli` thousandths each. lost / weight is the part of that time that the requests of the weeks before the day could
-- not use (fragmentation.py), 0 / 1 where no request is known; misfit is what of `lost` is for the sake of another model or MIG
-- mode. Of a partitioned GPU `place` is the GPU itself, milli 0, and gpus its idle instances.
create table stranding (
    cluster varchar,
    hour_us bigint,
    place varchar,
    model varchar,
    partitioned boolean,
    milli integer,
    gpus integer,
    start_us bigint,
    end_us bigint,
    lost bigint,
    misfit bigint,
    weight bigint
);

-- A row is a day whose free time was judged: by how many requests, and the digest of their shapes.
create table asked_day (
    cluster varchar,
    day_us bigint,
    requests bigint,
    digest varchar
);
