-- Reads the records of all times: read_claim and read_span have those that the steps after this one see.
create or replace temp view read_claim as
from claim;

create or replace temp view read_span as
select *, true as owned from context_span;

-- Nothing is kept of what was attributed before (ledger/partial/kept.sql).
create or replace temp table kept as
select 'device' as kind, device_id, node, gpu, gpu_index, first_us as start_us, last_us as end_us
from device
where false;

-- A row of claim_node is a node that a scheduler's allocations name.
create or replace temp table claim_node as
select distinct scheduler, node from claim where cluster = $cluster;
