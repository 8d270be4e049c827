-- Bills of clouds, line by line, as their exports tell them.

-- A row is one line of a bill (model.BILL); it counts once the row of its file stands in bill_file.
create table bill (
    file_id bigint,
    line bigint,
    part integer,
    line_key bigint,
    provider varchar,
    account varchar,
    sub_account varchar,
    invoice varchar,
    billing_start_us bigint,
    billing_end_us bigint,
    start_us bigint,
    end_us bigint,
    resource varchar,
    resource_name varchar,
    service varchar,
    sku varchar,
    instance_type varchar,
    description varchar,
    region varchar,
    category varchar,
    charge_type varchar,
    pricing varchar,
    commitment varchar,
    commitment_status varchar,
    billed_cost decimal(38, 18),
    effective_cost decimal(38, 18),
    list_cost decimal(38, 18),
    contracted_cost decimal(38, 18),
    currency varchar,
    quantity decimal(38, 18),
    unit varchar,
    tags varchar,
    gpu_count integer,
    gpu_model varchar
);

-- A row is a file of a bill that was read to its end (model.BILL_FILE).
create table bill_file (
    file_id bigint,
    kind varchar,
    name varchar,
    assembly varchar,
    scope varchar,
    records bigint
);
