-- Whether nobody held the device: such spans are kept of nodes where it is not known which GPUs a job holds.
alter table idle_span add column free boolean default false;

-- CPUs (in thousandths) and memory: what a node has for jobs, what jobs have of it, and what requests ask for. NULL: unknown.
alter table node add column cpu_milli bigint;
alter table node add column memory_bytes bigint;
alter table node add column cpu_milli_used bigint;
alter table node add column memory_bytes_used bigint;
alter table claim add column cpu_milli bigint;
alter table claim add column memory_bytes bigint;
-- Which nodes a run may use, as in pending.
alter table claim add column node_rule varchar;
alter table replaced_claim add column cpu_milli bigint;
alter table replaced_claim add column memory_bytes bigint;
alter table replaced_claim add column node_rule varchar;
alter table pending add column cpu_milli bigint;
alter table pending add column memory_bytes bigint;
alter table replaced_pending add column cpu_milli bigint;
alter table replaced_pending add column memory_bytes bigint;
