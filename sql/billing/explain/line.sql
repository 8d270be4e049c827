-- A row of charge_run is a run that is charged.
create or replace temp table charge_run as
select
    r.run_id,
    coalesce(t.team, '__unallocated__') as owner,
    r.job_id,
    r.user_name,
    r.scheduler,
    case when r.end_estimated then r.end_us end as guessed_end_us
from run r
left join run_team t on t.run_id = r.run_id and t.cluster = r.cluster
where $kind = 'allocated'
    and coalesce(list_contains($teams::varchar[], coalesce(t.team, '__unallocated__')), true)
    and (not $by_team or coalesce(t.team, '__unallocated__') is not distinct from $of_team)
    and (not $by_user or r.user_name is not distinct from $of_user)
    and (not $by_queue or r.queue is not distinct from $of_queue)
    and (not $by_namespace or r.namespace is not distinct from $of_namespace)
    and (not $by_account or r.account is not distinct from $of_account)
    and (not $by_job or r.job_id is not distinct from $of_job);

-- A row of charge_line is a segment: a device held by one run or by none, at one share, price and policy. Segments of a run
-- that adjoin are one line, and those that touch the same hour: the ledger has buckets by the hour. It lasts from the first
-- to the last of them; device_us is what was held of that time. free_bucket: the bucket of unheld time.
create or replace temp table charge_line as
with charged as (
    select s.*
    from segment s
    where s.start_us < $end_us and s.end_us > $start_us
        and s.run_id in (select run_id from charge_run)
    union all
    select s.*
    from segment s
    where s.start_us < $end_us and s.end_us > $start_us
        and s.run_id is null
        and $kind = 'platform'
        and (not $by_team or $of_team = '__platform__')
        and coalesce(list_contains($teams::varchar[], '__platform__'), true)
        and (
            $cause is null
            or $cause = case when s.free_bucket = 'schedulable' then 'idle' else s.free_bucket end
            or ($cause = 'stranded' and s.free_bucket = 'schedulable')
        )
        and coalesce($of_user, $of_queue, $of_namespace, $of_account, $of_job) is null
),
placed as (
    select u.unit_id, s.* exclude (device_id, profile, cluster)
    from charged s
    join unit u on u.device_id = s.device_id and u.profile is not distinct from s.profile and u.cluster = s.cluster
),
-- Spans are compared behind the join by number: as its conditions they would be compared before it, each with each.
priced as (
    select
        s.* exclude (start_us, end_us),
        p.kind_id,
        p.price,
        greatest(s.start_us, p.start_us) as start_us,
        least(s.end_us, p.end_us) as end_us
    from placed s
    join priced_unit p on p.unit_id = s.unit_id
    where greatest(s.start_us, p.start_us) < least(s.end_us, p.end_us)
),
cut as (
    select
        s.* exclude (start_us, end_us),
        y.policy,
        greatest(s.start_us, y.start_us) as start_us,
        least(s.end_us, y.end_us) as end_us
    from priced s
    cross join policy_span y
    where greatest(s.start_us, y.start_us) < least(s.end_us, y.end_us)
),
before as (
    select
        *,
        lag(end_us) over (partition by kind_id, policy, run_id, share_num, share_den order by start_us) as before_us
    from cut
    where run_id is not null
),
numbered as (
    select
        *,
        count(case when start_us > before_us and start_us // 3600000000 > (before_us - 1) // 3600000000 then 1 end) over (
            partition by kind_id, policy, run_id, share_num, share_den
            order by start_us
            rows unbounded preceding
        ) as stretch
    from before
),
-- Of free time what is stranded is a line of its own over the same time (ledger/strand.sql).
lost as (
    select
        c.unit_id,
        c.kind_id,
        c.policy,
        c.start_us,
        c.share_num,
        c.share_den,
        sum(
            (2 * (least(t.end_us, c.end_us) - t.start_us)::hugeint * t.lost + t.weight) // (2 * t.weight)
            - (2 * (greatest(t.start_us, c.start_us) - t.start_us)::hugeint * t.lost + t.weight) // (2 * t.weight)
        )::bigint as us
    from cut c
    join unit u using (unit_id)
    join device d on d.device_id = u.device_id and d.cluster = u.cluster
    join stranding t
        on t.cluster = u.cluster
        and t.place = case when d.gi >= 0 then d.gpu else coalesce(d.node, d.gpu) end
        and t.model is not distinct from nullif(d.model, '')
        and t.partitioned = (d.gi >= 0) and (d.gi >= 0 or d.profile is null)
        and t.milli = case when d.gi >= 0 then 0 else 1000 * c.share_num // c.share_den end
        and t.start_us < c.end_us and t.end_us > c.start_us
    where c.run_id is null and c.free_bucket = 'schedulable'
        and t.lost > 0
        and t.hour_us > $start_us - 3600000000 and t.hour_us < $end_us
    group by all
),
free_line as (
    select c.*, 1 as segments, c.end_us - c.start_us - coalesce(z.us, 0) as device_us
    from cut c
    left join lost z using (unit_id, kind_id, policy, start_us, share_num, share_den)
    where c.run_id is null
        and ($cause is null or $cause = case when c.free_bucket = 'schedulable' then 'idle' else c.free_bucket end)
    union all
    select c.* replace ('stranded' as free_bucket), 1, z.us
    from cut c
    join lost z using (unit_id, kind_id, policy, start_us, share_num, share_den)
    where c.run_id is null and c.free_bucket = 'schedulable' and ($cause is null or $cause = 'stranded')
),
merged as (
    select
        unit_id,
        kind_id,
        price,
        policy,
        run_id,
        share_num,
        share_den,
        null::varchar as free_bucket,
        nullif(concat_ws('+', min(method), nullif(max(method), min(method))), '') as method,
        nullif(concat_ws('+', min(split), nullif(max(split), min(split))), '') as split,
        bool_or(conflict) as conflict,
        count(*) as segments,
        min(start_us) as start_us,
        max(end_us) as end_us,
        sum(end_us - start_us)::bigint as device_us
    from numbered
    group by unit_id, kind_id, price, policy, run_id, share_num, share_den, stretch
    union all by name
    select * from free_line where device_us > 0
)
select
    row_number() over (
        order by unit_id, start_us, end_us, run_id, kind_id, policy, free_bucket, share_num, share_den
    ) as key,
    *,
    device_us::hugeint * (share_num * ($scale // share_den)) as units,
    device_us::hugeint * (share_num * ($scale // share_den)) * price as amount
from merged;
