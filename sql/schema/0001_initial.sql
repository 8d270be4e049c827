-- Telemetry and all that is computed from it. No keys, indexes or sequences: the same text runs on DuckDB and DuckLake.
-- Times are microseconds since the Unix epoch, UTC; spans are half-open.

-- A row is one device at one instant: a column a DCGM field (fields.py), NULL where it was not read. Sealed: sorted
-- by (device_id, observed_us) within a day, no duplicates.
create table sample (
    device_id bigint,
    context_id bigint,
    observed_us bigint,
    gr_engine_ratio double,
    sm_active_ratio double,
    sm_occupancy_ratio double,
    tensor_active_ratio double,
    dram_active_ratio double,
    fp64_active_ratio double,
    fp32_active_ratio double,
    fp16_active_ratio double,
    pcie_tx_bytes_per_s double,
    pcie_rx_bytes_per_s double,
    nvlink_tx_bytes_per_s double,
    nvlink_rx_bytes_per_s double,
    tensor_imma_active_ratio double,
    tensor_hmma_active_ratio double,
    tensor_dfma_active_ratio double,
    int_active_ratio double,
    c2c_tx_all_bytes_per_s double,
    c2c_tx_data_bytes_per_s double,
    c2c_rx_all_bytes_per_s double,
    c2c_rx_data_bytes_per_s double,
    sm_elapsed_cycles bigint,
    sm_active_cycles bigint,
    mma_active_cycles bigint,
    dmma_active_cycles bigint,
    hmma_active_cycles bigint,
    imma_active_cycles bigint,
    dfma_active_cycles bigint,
    pcie_tx_bytes bigint,
    pcie_rx_bytes bigint,
    int_active_cycles bigint,
    fp64_active_cycles bigint,
    fp32_active_cycles bigint,
    fp16_active_cycles bigint,
    gpu_util_ratio double,
    mem_copy_util_ratio double,
    enc_util_ratio double,
    dec_util_ratio double,
    fb_total_bytes bigint,
    fb_free_bytes bigint,
    fb_used_bytes bigint,
    fb_reserved_bytes bigint,
    fb_used_ratio double,
    pstate bigint,
    mig_mode bigint,
    mig_max_slices bigint,
    cuda_driver_version bigint,
    vgpu_license_status bigint,
    sm_clock_mhz double,
    mem_clock_mhz double,
    sm_clock_max_mhz double,
    clocks_event_reasons bigint,
    memory_temp_celsius double,
    gpu_temp_celsius double,
    power_watts double,
    energy_mj bigint,
    power_instant_watts double,
    power_limit_requested_watts double,
    power_limit_min_watts double,
    power_limit_max_watts double,
    power_limit_default_watts double,
    power_limit_watts double,
    power_violation_ns bigint,
    thermal_violation_ns bigint,
    sync_boost_violation_ns bigint,
    board_limit_violation_ns bigint,
    low_util_violation_ns bigint,
    reliability_violation_ns bigint,
    app_clocks_violation_ns bigint,
    base_clocks_violation_ns bigint,
    sw_power_cap_ns bigint,
    sync_boost_ns bigint,
    sw_therm_slowdown_ns bigint,
    hw_therm_slowdown_ns bigint,
    hw_power_brake_slowdown_ns bigint,
    xid_code bigint,
    ecc_sbe_volatile_count bigint,
    ecc_dbe_volatile_count bigint,
    ecc_sbe_aggregate_count bigint,
    ecc_dbe_aggregate_count bigint,
    sram_threshold_exceeded bigint,
    remap_banks_max_count bigint,
    remap_banks_high_count bigint,
    remap_banks_partial_count bigint,
    remap_banks_low_count bigint,
    remap_banks_none_count bigint,
    retired_sbe_pages bigint,
    retired_dbe_pages bigint,
    retired_pending_pages bigint,
    remapped_uncorrectable_rows bigint,
    remapped_correctable_rows bigint,
    row_remap_failed bigint,
    row_remap_pending bigint,
    imex_daemon_status bigint,
    memory_unrepairable bigint,
    gpu_recovery_action bigint,
    fabric_clique_id bigint,
    fabric_health_mask bigint,
    fabric_health_summary bigint,
    pcie_replay_count bigint,
    pcie_gen_max bigint,
    pcie_lanes_max bigint,
    pcie_gen bigint,
    pcie_lanes bigint,
    c2c_link_count bigint,
    c2c_link_status bigint,
    c2c_bandwidth_max_mb_per_s double,
    nvlink_crc_flit_error_count bigint,
    nvlink_crc_data_error_count bigint,
    nvlink_replay_error_count bigint,
    nvlink_recovery_error_count bigint,
    nvlink_bandwidth_raw double,
    nvlink_tx_mb_per_s double,
    nvlink_rx_mb_per_s double,
    nvlink_tx_packets bigint,
    nvlink_tx_bytes bigint,
    nvlink_rx_packets bigint,
    nvlink_rx_bytes bigint
);

-- Samples as they arrived, not yet sealed.
create table sample_tail as
select * from sample where false;

-- A row is one distinct label set of samples (model.CONTEXT).
create table context (
    context_id bigint,
    device_id bigint,
    cluster varchar,
    gpu varchar,
    gi integer,
    profile varchar,
    node varchar,
    gpu_index integer,
    pci_bus_id varchar,
    model varchar,
    driver varchar,
    namespace varchar,
    pod varchar,
    pod_uid varchar,
    container varchar,
    job varchar
);

-- A row is a scheduler's word that a run held devices of one type on one node (model.CLAIM).
create table claim (
    cluster varchar,
    scheduler varchar,
    kind varchar,
    job_id varchar,
    run_key varchar,
    pod_uid varchar,
    pod varchar,
    namespace varchar,
    node varchar,
    gpu_type varchar,
    profile varchar,
    device_count integer,
    device_indexes varchar,
    gpus varchar,
    submit_us bigint,
    start_us bigint,
    end_us bigint,
    evidence_us bigint,
    state varchar,
    user_name varchar,
    account varchar,
    queue varchar,
    qos varchar,
    name varchar,
    labels varchar,
    suspended_us bigint
);

-- A row is a request for GPUs that had not started when its record was written (model.PENDING).
create table pending (
    cluster varchar,
    scheduler varchar,
    job_id varchar,
    submit_us bigint,
    start_us bigint,
    evidence_us bigint,
    device_count integer,
    profile varchar,
    gpu_type varchar,
    node_count integer,
    user_name varchar,
    account varchar,
    namespace varchar,
    queue varchar,
    reason varchar
);

-- A row is what a scheduler said about one node at one instant (model.NODE).
create table node (
    cluster varchar,
    scheduler varchar,
    node varchar,
    observed_us bigint,
    state varchar,
    since_us bigint,
    reason varchar,
    gpu_model varchar,
    devices varchar,
    sharing varchar,
    replicas integer,
    mig_strategy varchar,
    pool varchar,
    labels varchar
);

-- A row is one scheduler event (model.EVENT).
create table event (
    cluster varchar,
    event_id varchar,
    object_kind varchar,
    namespace varchar,
    name varchar,
    reason varchar,
    message varchar,
    count integer,
    first_us bigint,
    last_us bigint
);

-- A row is one edge of the topology as one source told it (model.LINK).
create table link (
    cluster varchar,
    observed_us bigint,
    node varchar,
    a varchar,
    b varchar,
    level varchar,
    detail varchar
);

-- A row is a file that was read to its end, known by its content.
create table import_file (
    digest varchar,
    kind varchar,
    cluster varchar,
    path varchar,
    bytes bigint,
    records bigint,
    rejected bigint,
    imported_us bigint
);

-- A row is a reason for which pieces of one file were refused, with the first of them.
create table reject (
    digest varchar,
    kind varchar,
    cluster varchar,
    path varchar,
    reason varchar,
    count bigint,
    line bigint,
    example varchar
);

-- A row is one context seen on one device within one hour, from its first to its last sample. shared: contexts of one
-- instant; parallel: contexts that alternate, two exporters on one node or labels that come and go.
create table context_span (
    device_id bigint,
    context_id bigint,
    hour_us bigint,
    first_us bigint,
    last_us bigint,
    samples bigint,
    shared boolean,
    parallel boolean
);

-- A row is an hour of a cluster whose derived rows are older than its samples, allocations or prices.
create table dirty_hour (
    cluster varchar,
    hour_us bigint
);

-- A row is a day of sealed samples; repeated: some device has two rows at one instant (shared or twice scraped).
create table sealed_day (
    day_us bigint,
    rows bigint,
    repeated boolean
);

-- A row is a physical GPU or a MIG slice that the fleet owned, with its newest labels.
create table device (
    device_id bigint,
    parent_id bigint,
    cluster varchar,
    gpu varchar,
    gi integer,
    profile varchar,
    node varchar,
    gpu_index integer,
    pci_bus_id varchar,
    model varchar,
    pool varchar,
    measured boolean,
    first_us bigint,
    last_us bigint,
    first_interval_us bigint,
    last_interval_us bigint
);

-- A row is a span in which the fleet owned a physical GPU, or a MIG slice whose GPU no source names (then a part of one).
create table capacity (
    cluster varchar,
    device_id bigint,
    start_us bigint,
    end_us bigint,
    share_num bigint,
    share_den bigint
);

-- A row is one run of a job, or of a pod, that held devices: what is charged and what a finding is about.
create table run (
    run_id bigint,
    cluster varchar,
    scheduler varchar,
    job_id varchar,
    run_key varchar,
    declared boolean,
    user_name varchar,
    account varchar,
    queue varchar,
    namespace varchar,
    qos varchar,
    name varchar,
    labels varchar,
    state varchar,
    submit_us bigint,
    start_us bigint,
    end_us bigint,
    ended boolean
);

-- A row is a device, an elementary span of time and one of its owners; run_id is NULL where nobody held it.
-- The shares num / den of the rows of one physical GPU at one instant add up to 1.
create table segment (
    cluster varchar,
    device_id bigint,
    start_us bigint,
    end_us bigint,
    run_id bigint,
    share_num bigint,
    share_den bigint,
    profile varchar,
    free_bucket varchar,
    estimated boolean,
    conflict boolean
);

-- A row is a run of idle samples of one device, cut at the hour.
create table idle_span (
    cluster varchar,
    hour_us bigint,
    device_id bigint,
    start_us bigint,
    end_us bigint
);

-- A row is a device and a minute, cut at every edge of its segments: microseconds of each bucket that was observed.
create table device_minute (
    cluster varchar,
    hour_us bigint,
    device_id bigint,
    start_us bigint,
    end_us bigint,
    unobserved_us integer,
    hoarded_us integer,
    gap_us integer,
    communication_us integer,
    stalled_us integer,
    below_roof_us integer,
    memory_roof_us integer,
    compute_us integer
);

-- A row is a device, its segment and five minutes: means of the samples that ended in them.
create table device_window (
    cluster varchar,
    hour_us bigint,
    device_id bigint,
    segment_start_us bigint,
    start_us bigint,
    samples integer,
    covered_us bigint,
    gr_engine_ratio float,
    sm_active_ratio float,
    sm_occupancy_ratio float,
    tensor_active_ratio float,
    dram_active_ratio float,
    fp_active_ratio float,
    gpu_util_ratio float,
    fb_used_bytes bigint,
    power_watts float,
    link_ratio float,
    pcie_bytes_per_s float,
    throttled boolean
);

-- A row is a device, an hour and one owner: microseconds of the device in each bucket, and its share of the GPU.
create table ledger_hour (
    cluster varchar,
    hour_us bigint,
    device_id bigint,
    run_id bigint,
    share_num bigint,
    share_den bigint,
    profile varchar,
    estimated boolean,
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

-- A row is what one detector says of one chain of runs: a finding of contract.md section 4. Money is added when read.
create table finding (
    key varchar,
    detector varchar,
    cluster varchar,
    job_id varchar,
    run_id bigint,
    state varchar,
    resolved_reason varchar,
    confidence double,
    started_us bigint,
    ended_us bigint,
    last_seen_us bigint,
    wasted_units varchar,
    wasted_den bigint,
    bucket varchar,
    evidence varchar,
    device_ids bigint[],
    rule_version varchar,
    opened_us bigint
);

-- A row is a verdict that could not be reached, and what would make it possible.
create table unjudged (
    detector varchar,
    cluster varchar,
    run_id bigint,
    device_id bigint,
    start_us bigint,
    end_us bigint,
    reason varchar
);

-- A row is the team that a run's time is charged to, and why.
create table run_team (
    cluster varchar,
    run_id bigint,
    team varchar,
    team_why varchar
);

-- A row is a device (with the MIG profile it had) and a span of one price: usd_per_gpu_hour is exact decimal text, NULL where no rate covers it.
-- The spans of a device cover all time.
create table device_price (
    cluster varchar,
    device_id bigint,
    profile varchar,
    start_us bigint,
    end_us bigint,
    usd_per_gpu_hour varchar,
    currency varchar,
    pricing varchar
);

-- A row says which rate card and ownership rules the two tables above were computed from.
create table priced (
    cluster varchar,
    rate_version bigint,
    team_version bigint
);
