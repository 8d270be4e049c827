-- When a node booted (Slurm) or its object was created (Kubernetes): a node that no job used before was there since then.
alter table node add column created_us bigint;
