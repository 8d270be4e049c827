-- Verdicts by the hour, what they claim of the ledger, and findings about other things than jobs.

alter table device_window add column sm_clock_mhz float;

alter table device_window add column gpu_temp_celsius float;

-- A row is a measured device and an hour, held or not: extremes and increases of what tells of its health and memory.
-- NULL where nobody read the field. xids: the codes other than 0 that were read, [] where all were 0, and the first instant
-- of each. pcie_*_min, pcie_*_seen_max: least and greatest of what was negotiated; pcie_*_max: what the card can do. pcie_replays,
-- nvlink_errors: increase within the hour. ecc_dbe_count: the volatile counter.
create table device_hour (
    cluster varchar,
    hour_us bigint,
    device_id bigint,
    samples integer,
    fb_used_min_bytes bigint,
    fb_used_max_bytes bigint,
    fb_used_last_bytes bigint,
    fb_total_bytes bigint,
    gpu_temp_max_celsius float,
    sm_clock_mhz float,
    sm_clock_max_mhz float,
    power_limit_watts float,
    pcie_gen_min bigint,
    pcie_gen_seen_max bigint,
    pcie_gen_max bigint,
    pcie_lanes_min bigint,
    pcie_lanes_seen_max bigint,
    pcie_lanes_max bigint,
    pcie_replays bigint,
    nvlink_errors bigint,
    xids bigint[],
    xid_first_us bigint[],
    ecc_dbe_count bigint,
    row_remap_pending bigint,
    row_remap_failed bigint,
    remapped_uncorrectable_rows bigint,
    memory_unrepairable bigint,
    clocks_event_reasons bigint,
    fabric_health_summary bigint,
    cuda_driver_version bigint
);

-- A row is what one detector says of one subject in one span, of one hour in most rules. Findings are made of these rows.
-- cause_us: of a job the start of its chain of runs; NULL elsewhere. run_id: whose owner answers; NULL: nobody's.
create table verdict (
    detector varchar,
    cluster varchar,
    subject_kind varchar,
    subject_id varchar,
    subject_name varchar,
    cause_us bigint,
    run_id bigint,
    team varchar,
    hour_us bigint,
    start_us bigint,
    end_us bigint,
    still boolean,
    confidence double,
    severity varchar,
    device_ids bigint[],
    nodes varchar[],
    numbers map(varchar, double),
    words map(varchar, varchar),
    rule_version varchar
);

-- A row is device time of one hour, run (NULL: nobody's) and bucket that a verdict says is wasted.
create table verdict_claim (
    detector varchar,
    cluster varchar,
    subject_kind varchar,
    subject_id varchar,
    cause_us bigint,
    verdict_us bigint,
    device_id bigint,
    run_id bigint,
    hour_us bigint,
    bucket varchar,
    us bigint
);

-- A row is what the ledger granted of such a claim: no microsecond of a bucket is granted twice. Units are us * share.
create table granted_claim (
    detector varchar,
    cluster varchar,
    subject_kind varchar,
    subject_id varchar,
    cause_us bigint,
    verdict_us bigint,
    device_id bigint,
    run_id bigint,
    hour_us bigint,
    bucket varchar,
    profile varchar,
    share_num bigint,
    share_den bigint,
    us bigint
);

-- A row is a rule that has judged a cluster, and the thresholds it did it by. owed_from_us: since when it owes its verdicts,
-- because it failed (with this reason) or was not asked; NULL: it owes none.
create table rule_state (
    cluster varchar,
    detector varchar,
    rule_version varchar,
    owed_from_us bigint,
    failure varchar
);

-- A row is how much of a finding's time has one price: units / den GPU-microseconds. usd_per_gpu_hour NULL: no rate covers it.
create table finding_amount (
    key varchar,
    cluster varchar,
    bucket varchar,
    model varchar,
    usd_per_gpu_hour varchar,
    currency varchar,
    units varchar,
    den hugeint
);

alter table finding add column subject_kind varchar;

alter table finding add column subject_id varchar;

alter table finding add column subject_name varchar;

alter table finding add column cause_us bigint;

alter table finding add column team varchar;

alter table finding add column severity varchar;

alter table finding add column nodes varchar[];

update finding set subject_kind = 'job', subject_id = job_id;
