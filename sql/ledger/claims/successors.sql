-- Whether anything can say that a run of Slurm without a recorded end is over: a later run of its job, or a list of jobs.
select
    exists(from job_list where cluster = $cluster)
    or exists(
        select 1
        from wanted
        where scheduler = 'slurm'
        group by job_id, split_part(run_key, '@', 1)
        having min(run_id) < max(run_id) and not bool_and(ended)
    ) as found;
