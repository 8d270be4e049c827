-- Whole days of the books in few rows, so that a question over months reads little. All of it follows from the tables of
-- 0001 and is computed when a cluster is priced; what is missing here is read from them.

-- A row is a device (with the MIG profile it had) and its class: devices of one class have the same words and prices.
create table device_class (
    cluster varchar,
    device_id bigint,
    profile varchar,
    class_id bigint
);

-- A row is a class of devices, its words, and a span of one price; the spans of a class cover all time. reporting: a source
-- measures its devices, or slices of them.
create table class_price (
    cluster varchar,
    class_id bigint,
    pool varchar,
    model varchar,
    profile varchar,
    reporting boolean,
    start_us bigint,
    end_us bigint,
    usd_per_gpu_hour varchar,
    currency varchar
);

-- A row is a UTC day, a class of devices, one owner and a share: device microseconds that its segments charge, from the
-- first of them on, and those of each bucket of its booked hours.
create table book_day (
    cluster varchar,
    day_us bigint,
    class_id bigint,
    run_id bigint,
    share_num bigint,
    share_den bigint,
    first_us bigint,
    charged_us bigint,
    schedulable_us bigint,
    stranded_us bigint,
    out_of_service_us bigint,
    mig_remainder_us bigint,
    unobserved_us bigint,
    hoarded_us bigint,
    gap_us bigint,
    communication_us bigint,
    stalled_us bigint,
    below_roof_us bigint,
    memory_roof_us bigint,
    compute_us bigint
);

-- A row is a UTC day, a class of devices, one team and a share: the rows of book_day by the teams of their runs. owner is
-- __platform__ where nobody held them.
create table team_day (
    cluster varchar,
    day_us bigint,
    class_id bigint,
    held boolean,
    owner varchar,
    share_num bigint,
    share_den bigint,
    first_us bigint,
    charged_us bigint,
    schedulable_us bigint,
    stranded_us bigint,
    out_of_service_us bigint,
    mig_remainder_us bigint,
    unobserved_us bigint,
    hoarded_us bigint,
    gap_us bigint,
    communication_us bigint,
    stalled_us bigint,
    below_roof_us bigint,
    memory_roof_us bigint,
    compute_us bigint
);

-- A row is a day of a cluster whose rows of book_day and team_day say what segments and hours say. Whoever changes those drops it.
create table rolled_day (
    cluster varchar,
    day_us bigint
);
