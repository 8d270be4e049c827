-- A row is a list of Slurm's jobs that a file of `scontrol show job` has: when it was written, and of which user, account and partition
-- (NULL: all). A job of theirs that was running before and is not in the list was gone by then.
create table job_list (cluster varchar, at_us bigint, user_name varchar, account varchar, queue varchar, file_id bigint);
