-- Sums of whole days that tell slices, and words of runs, without a row for each run.

-- device_id: the MIG slice; NULL where a row is of whole GPUs, or of what is left of those that are cut.
alter table book_day add column device_id bigint;

-- A row is a UTC day, a class of devices, the runs of one team with one user, queue, namespace and account, and a share: the
-- rows of book_day by these words. run_id is one of the runs: it has the words of all; NULL: nobody held them.
create table word_day (
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

-- A row is a UTC day, a class of devices, a MIG slice (NULL: as in book_day), one team and a share: the rows of book_day by
-- the teams of their runs. owner is __platform__ where nobody held them.
create table slice_day (
    cluster varchar,
    day_us bigint,
    class_id bigint,
    device_id bigint,
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

-- Days that were rolled before are rolled again.
delete from rolled_day;
