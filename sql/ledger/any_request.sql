-- Whether a cluster has any request that was submitted in [since_us, until_us): without one, capacity/demand.sql has no row.
select
    exists (
        select 1
        from claim
        where cluster = $cluster and coalesce(submit_us, start_us) >= $since_us and coalesce(submit_us, start_us) < $until_us
    )
    or exists (
        select 1 from pending where cluster = $cluster and submit_us >= $since_us and submit_us < $until_us
    )
    or exists (
        select 1 from workload where cluster = $cluster and submit_us >= $since_us and submit_us < $until_us
    ) as found;
