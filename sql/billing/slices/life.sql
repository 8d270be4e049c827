-- A row of slice_life is a MIG slice during one stretch of time in which it existed without a break, counted by one method.
create or replace temp table slice_life as
with slice_span as (
    select
        s.cluster,
        d.parent_id,
        s.device_id,
        s.profile,
        s.method,
        s.share_num,
        s.share_den,
        greatest(s.start_us, $start_us) as start_us,
        least(s.end_us, $end_us) as end_us
    from segment s
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    where (d.gi >= 0 or d.profile is not null) and s.start_us < $end_us and s.end_us > $start_us
        and ($cluster is null or s.cluster = $cluster)
        and ($pool is null or d.pool = $pool)
        and ($gpu is null or (d.measured and d.gpu = $gpu))
),
-- A slice of one share whose spans fill its time has had no break: only the others are looked at one by one.
whole as materialized (
    select
        cluster,
        parent_id,
        device_id,
        profile,
        method,
        min(start_us) as start_us,
        max(end_us) as end_us,
        count(*) as spans,
        min(share_num) = max(share_num) and min(share_den) = max(share_den)
            and sum(end_us - start_us) = max(end_us) - min(start_us) as unbroken
    from slice_span
    group by cluster, parent_id, device_id, profile, method
),
linked as (
    select
        s.*,
        s.start_us > max(s.end_us) over (
            partition by s.cluster, s.device_id, s.profile, s.method
            order by s.start_us
            rows between unbounded preceding and 1 preceding
        ) as after_break
    from slice_span s
    join whole w
        on w.device_id = s.device_id and w.cluster = s.cluster and w.profile is not distinct from s.profile
        and w.method is not distinct from s.method and not w.unbroken
),
numbered as (
    select
        *,
        count(case when after_break then 1 end) over (
            partition by cluster, device_id, profile, method order by start_us rows unbounded preceding
        ) as life
    from linked
)
select cluster, parent_id, device_id, profile, start_us, end_us, spans
from whole
where unbroken
union all
select cluster, parent_id, device_id, profile, min(start_us), max(end_us), count(*)
from numbered
group by cluster, parent_id, device_id, profile, method, life;

-- A row of layout is an epoch of a GPU: the time from one change of its slices to the next. Where prices change their
-- currency, or begin or end, an epoch is parted too, so that a row of it has one kind of money.
create or replace temp table layout as
with money as (
    select
        u.cluster,
        d.parent_id,
        p.start_us,
        lag((p.currency, p.lacks)) over (
            partition by u.cluster, u.device_id, u.profile order by p.start_us
        ) is distinct from (p.currency, p.lacks) as changes
    from unit u
    join priced_unit p using (unit_id)
    join device d on d.device_id = u.device_id and d.cluster = u.cluster
    where u.slice is not null
),
edge as (
    select cluster, parent_id, start_us as at_us from slice_life
    union
    select cluster, parent_id, end_us from slice_life
    union
    select cluster, parent_id, start_us from money where changes and start_us > $start_us
)
select
    cluster,
    parent_id,
    at_us as start_us,
    lead(at_us) over (partition by cluster, parent_id order by at_us) as end_us
from edge
qualify end_us is not null;
