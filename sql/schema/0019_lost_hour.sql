-- A row is an hour of a cluster on a day that is not retired, whose raw samples were deleted by mistake. Its ledger hours stay as
-- they are until at least as many samples are back.
create table lost_hour (
    cluster varchar not null,
    hour_us bigint not null,
    samples bigint not null
);
