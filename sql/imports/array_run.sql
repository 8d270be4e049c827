-- Runs after a file of Slurm's was read: `sacct` without JobIDRaw does not have the number of an array task or of a component, which
-- begins the key of its run elsewhere. Such a record gets the key of another record of the same job and start.
update claim
set run_key = known.run_key
from (
    select bare.cluster, bare.job_id, bare.run_key as bare_key, min(c.run_key) as run_key
    from (
        select distinct cluster, job_id, run_key
        from claim
        where scheduler = 'slurm' and regexp_matches(job_id, '[_+]') and starts_with(run_key, job_id || '@')
    ) bare
    join claim c
        on c.cluster = bare.cluster and c.scheduler = 'slurm' and c.job_id = bare.job_id and c.run_key <> bare.run_key
        and split_part(c.run_key, '@', 2) = split_part(bare.run_key, '@', 2)
    group by all
) known
where claim.scheduler = 'slurm' and claim.cluster = known.cluster and claim.job_id = known.job_id
    and claim.run_key = known.bare_key;
