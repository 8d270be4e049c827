-- A row is a physical GPU and a UTC day (since the epoch), and a digest of what its segments of that day were computed from. Day
-- -1 has what holds at all times. A pass computes segments again from the first day that differs.
create table attributed_day (
    cluster varchar,
    parent_id bigint,
    day bigint,
    digest hugeint
);
