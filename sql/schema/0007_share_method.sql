-- By which method each share was reckoned, and what each owner of a shared device used of it.

-- What a MIG slice, or the rest of its GPU, is counted by: dominant, compute, memory or sm. NULL: a whole GPU.
alter table segment add column method varchar;

-- How a device with several owners is divided: bound (equally), replica (one of those that MPS makes), claim (equally among
-- the consumers of a resource claim), process (by what the processes of each used) or fraction (what each asked for).
-- NULL: it has one owner.
alter table segment add column split varchar;

-- A row is what the processes of one label set used of a shared device in five minutes: sums of the samples' GPU utilisation,
-- in ten-thousandths. A row without a label set says that the hour was looked at. Kept for ever: shares follow from it.
create table process_use (
    cluster varchar,
    device_id bigint,
    hour_us bigint,
    context_id bigint,
    start_us bigint,
    units bigint
);
