-- A row is a job of a cluster that had a run in the window, with the two numbers by which it is ranked. Money is near, and
-- rounded, so that a rank is the same every time.
with pool_run as (
    select distinct s.run_id
    from segment s
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    where d.pool = $pool and s.start_us < $end_us and s.end_us > $start_us
),
asked as (
    select
        r.cluster,
        r.run_id,
        r.job_id,
        r.start_us,
        r.user_name,
        r.account,
        r.queue,
        r.namespace,
        r.name,
        coalesce(r.state, case when not r.ended then 'RUNNING' end) as state,
        coalesce(t.team, '__unallocated__') as team
    from run r
    left join run_team t on t.run_id = r.run_id and t.cluster = r.cluster
    where r.start_us < $end_us and r.end_us > $start_us
        and ($cluster is null or r.cluster = $cluster)
        and ($teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__')))
        and ($user is null or r.user_name = $user)
        and ($pool is null or r.run_id in (select run_id from pool_run))
),
-- Amounts are summed by run first: numbers group faster than names.
held as (
    select
        s.run_id,
        sum(
            (least(s.end_us, $end_us) - greatest(s.start_us, $start_us))::double * s.share_num / s.share_den
        ) as amount
    from segment s
    where s.start_us < $end_us and s.end_us > $start_us and s.run_id is not null and $sort = 'gpu_seconds'
    group by s.run_id
),
price as materialized (
    select cluster, device_id, profile, start_us, end_us, usd_per_gpu_hour::double as usd_per_gpu_hour
    from device_price
    where start_us < $end_us and end_us > $start_us
),
charged as (
    select
        s.run_id,
        case
            when count(p.usd_per_gpu_hour) = count(*)
                then sum(
                    (least(s.end_us, p.end_us, $end_us) - greatest(s.start_us, p.start_us, $start_us))::double
                    * s.share_num / s.share_den * p.usd_per_gpu_hour
                )
        end as amount
    from segment s
    join price p
        on p.device_id = s.device_id and p.cluster = s.cluster and p.profile is not distinct from s.profile
        and p.start_us < s.end_us and p.end_us > s.start_us
    where s.start_us < $end_us and s.end_us > $start_us and s.run_id is not null
        and $sort = 'cost'
    group by s.run_id
),
booked as (
    select
        run_id,
        sum((memory_roof_us + compute_us)::double * share_num / share_den) as effective_us,
        sum(unobserved_us::double * share_num / share_den) as unobserved_us,
        sum(
            (
                hoarded_us + gap_us + communication_us + stalled_us + below_roof_us + memory_roof_us + compute_us
            )::double * share_num / share_den
        ) as observed_us
    from ledger_hour
    where hour_us < $end_us and hour_us + 3600000000 > $start_us and run_id is not null and $sort = 'effective_ratio'
    group by run_id
),
job as (
    select
        a.cluster,
        a.job_id,
        min(a.start_us) as start_us,
        case $sort
            when 'started' then min(a.start_us)
            when 'gpu_seconds' then sum(h.amount) / 1e6
            when 'cost' then case when count(c.run_id) = count(c.amount) then sum(c.amount) / 3600e6 end
            -- The least effective come first; where nothing was observed nobody knows.
            else case when sum(b.observed_us) > 0 then -sum(b.effective_us) / sum(b.observed_us + b.unobserved_us) end
        end::double as amount
    from asked a
    left join held h using (run_id)
    left join charged c using (run_id)
    left join booked b using (run_id)
    group by a.cluster, a.job_id
    having ($q is null or bool_or(contains(
            lower(concat_ws(chr(31), a.job_id, a.name, a.user_name, a.account, a.queue, a.namespace, a.team)), $q
        )))
        and ($state is null or starts_with(lower(arg_max(a.state, (a.start_us, a.run_id))), $state))
),
ranked as (
    select
        cluster,
        job_id,
        -- What is not known comes last.
        round(coalesce(amount, -1e18), 6) as first_rank,
        start_us::double as second_rank,
        concat_ws(chr(31), cluster, job_id) as name
    from job
)
select cluster, job_id, first_rank, second_rank, name
from ranked
where $after_name is null
    or (first_rank, second_rank) < ($after_first::double, $after_second::double)
    or ((first_rank, second_rank) = ($after_first::double, $after_second::double) and name > $after_name)
order by first_rank desc, second_rank desc, name
limit $limit;
