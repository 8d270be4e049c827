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
        case when $state is not null then coalesce(r.state, case when not r.ended then 'RUNNING' end) end as state,
        -- Words are looked at where something is sought only: they cost more than all sums.
        case
            when $q is null then true
            else contains(
                lower(
                    concat_ws(
                        chr(31),
                        r.job_id,
                        r.name,
                        r.user_name,
                        r.account,
                        r.queue,
                        r.namespace,
                        coalesce(t.team, '__unallocated__')
                    )
                ),
                $q
            )
        end as found
    from run r
    left join (select * from run_team where $teams::varchar[] is not null or $q is not null) t
        on t.run_id = r.run_id and t.cluster = r.cluster
    where r.start_us < $end_us and r.end_us > $start_us
        and ($cluster is null or r.cluster = $cluster)
        and ($teams::varchar[] is null or list_contains($teams, coalesce(t.team, '__unallocated__')))
        and ($user is null or r.user_name = $user)
        and ($queues::varchar[] is null or list_contains($queues, r.queue))
        and ($pool is null or r.run_id in (select run_id from pool_run))
),
-- The time outside the days that book_day covers (views/whole_days.sql).
fine_segment as (
    select
        run_id,
        cluster,
        device_id,
        profile,
        share_num,
        share_den,
        greatest(start_us, $start_us) as start_us,
        least(end_us, getvariable('rolled_from_us')) as end_us
    from segment
    where start_us < getvariable('rolled_from_us') and end_us > $start_us and run_id is not null
    union all
    select
        run_id,
        cluster,
        device_id,
        profile,
        share_num,
        share_den,
        greatest(start_us, getvariable('rolled_until_us')),
        least(end_us, $end_us)
    from segment
    where end_us > getvariable('rolled_until_us') and start_us < $end_us and run_id is not null
),
whole_day as (
    select *
    from book_day
    where day_us >= getvariable('rolled_from_us') and day_us < getvariable('rolled_until_us') and run_id is not null
),
-- Amounts are summed by run first: numbers group faster than names.
held as (
    select run_id, sum(amount) as amount
    from (
        select run_id, (end_us - start_us)::double * share_num / share_den as amount
        from fine_segment
        where $sort = 'gpu_seconds'
        union all
        select run_id, charged_us::double * share_num / share_den
        from whole_day
        where $sort = 'gpu_seconds'
    )
    group by run_id
),
price as materialized (
    select device_id, profile, start_us, end_us, usd_per_gpu_hour::double as usd_per_gpu_hour
    from device_price
    where start_us < $end_us and end_us > $start_us
),
charged as (
    select run_id, case when count(amount) = count(*) then sum(amount) end as amount
    from (
        select
            s.run_id,
            (least(s.end_us, p.end_us) - greatest(s.start_us, p.start_us))::double
            * s.share_num / s.share_den * p.usd_per_gpu_hour as amount
        from fine_segment s
        join price p
            on p.device_id = s.device_id and p.profile is not distinct from s.profile
            and p.start_us < s.end_us and p.end_us > s.start_us
        where $sort in ('cost', 'avoidable')
        union all
        select b.run_id, b.charged_us::double * b.share_num / b.share_den * p.usd_per_gpu_hour::double
        from whole_day b
        join class_price p
            on p.class_id = b.class_id and p.cluster = b.cluster
            and p.start_us <= b.day_us and p.end_us > b.day_us
        where $sort in ('cost', 'avoidable') and b.charged_us > 0
    )
    group by run_id
),
hour as (
    select run_id, share_num, share_den, unobserved_us, hoarded_us, gap_us, communication_us, stalled_us,
        below_roof_us, memory_roof_us, compute_us
    from ledger_hour
    where hour_us < getvariable('rolled_from_us') and hour_us + 3600000000 > $start_us and run_id is not null
    union all
    select run_id, share_num, share_den, unobserved_us, hoarded_us, gap_us, communication_us, stalled_us,
        below_roof_us, memory_roof_us, compute_us
    from ledger_hour
    where hour_us >= getvariable('rolled_until_us') and hour_us < $end_us and hour_us + 3600000000 > $start_us
        and run_id is not null
    union all
    select run_id, share_num, share_den, unobserved_us, hoarded_us, gap_us, communication_us, stalled_us,
        below_roof_us, memory_roof_us, compute_us
    from whole_day
),
recorded as (
    select
        run_id,
        sum((memory_roof_us + compute_us)::double * share_num / share_den) as effective_us,
        sum(unobserved_us::double * share_num / share_den) as unobserved_us,
        -- Without SM_ACTIVE only pauses are seen, and the work is unknown.
        sum((communication_us + stalled_us + below_roof_us + memory_roof_us + compute_us)::double) as work_us,
        sum(
            (
                hoarded_us + gap_us + communication_us + stalled_us + below_roof_us + memory_roof_us + compute_us
            )::double * share_num / share_den
        ) as observed_us,
        sum(
            case $sort
                when 'hoarded' then hoarded_us
                when 'gap' then gap_us
                when 'communication' then communication_us
                when 'stalled' then stalled_us
                when 'avoidable' then hoarded_us + gap_us + communication_us + stalled_us
                else 0
            end::double * share_num / share_den
        ) as lost_us
    from hour
    where $sort in ('effective_ratio', 'avoidable', 'hoarded', 'gap', 'communication', 'stalled')
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
            when 'hoarded' then sum(b.lost_us) / 1e6
            when 'gap' then sum(b.lost_us) / 1e6
            when 'communication' then sum(b.lost_us) / 1e6
            when 'stalled' then sum(b.lost_us) / 1e6
            -- At the mean price of the job; those without a price follow, by time. Measured for less than half, it is unknown.
            when 'avoidable' then case
                when sum(b.observed_us) >= sum(b.unobserved_us)
                    then coalesce(
                        case when count(c.run_id) = count(c.amount) then sum(c.amount) / 3600e6 end
                        * sum(b.lost_us) / nullif(sum(b.observed_us + b.unobserved_us), 0),
                        sum(b.lost_us) / 3600e6 - 1e12
                    )
            end
            -- The least effective come first; those with hardly any observed time, whose effectiveness is unknown, last.
            else case
                when sum(b.observed_us) > 0 and sum(b.observed_us) * 10 >= sum(b.observed_us + b.unobserved_us)
                    and (sum(b.work_us) > 0 or sum(b.unobserved_us) * 100 <= sum(b.observed_us + b.unobserved_us))
                    then -sum(b.effective_us) / sum(b.observed_us)
            end
        end::double as amount
    from asked a
    left join held h using (run_id)
    left join charged c using (run_id)
    left join recorded b using (run_id)
    group by a.cluster, a.job_id
    having bool_or(a.found)
        and (
            $state is null
            or starts_with(
                lower(arg_max(a.state, (a.start_us, a.run_id)) filter (where $state is not null)), $state
            )
        )
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
