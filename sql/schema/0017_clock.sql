-- The server's own clock: its steps, and the last retention run's bounds.

-- A row is a step of the server's wall clock: when it happened by the time before it, and by how much the clock changed (above 0:
-- ahead). outcome: confirmed (the new time is right), withdrawn (the clock came back), wrong (sources confirm the time before)
-- or unconfirmed. source: which source decided; NULL: none.
create table clock_step (
    at_us bigint not null,
    shift_us bigint not null,
    outcome varchar not null,
    source varchar
);

-- At most one row: how far the wall clock was ahead of the machine's uptime when it was last trusted, and in which boot.
create table clock_mark (
    boot_id varchar not null,
    offset_us bigint not null
);

-- At most one row: before which times the last retention run would have deleted raw samples and minutes.
create table retention_bound (
    raw_until_us bigint not null,
    minute_until_us bigint not null
);
