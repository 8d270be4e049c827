-- Which kinds of scheduler records a cluster has. several: some that are not alone in their run; listed: records of Slurm from files,
-- by node.
select
    coalesce(bool_or(rowid not in (select number from lone_claim)), false) as several,
    coalesce(bool_or(scheduler = 'kubernetes'), false) as pods,
    coalesce(bool_or(scheduler = 'slurm'), false) as slurm,
    coalesce(
        bool_or(scheduler = 'slurm' and file_id is not null and node is not null and evidence_us is not null), false
    ) as listed
from claim
where cluster = $cluster;
