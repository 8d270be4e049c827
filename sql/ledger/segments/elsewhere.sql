-- A row of elsewhere is a GPU that another cluster has samples of too, and a span in which it was there; `gone`: it moved there after
-- its last sample here. Both clusters find the same turns, and neither reaches into those of the other: a cluster has the GPU from half
-- an interval before its first sample of a turn to half an interval after the last, at most to the middle between two turns. A GPU that
-- both clusters see at one time has two names: it did not move, and from_us is NULL.
create or replace temp table elsewhere as
with last as (
    select gpu, max(last_us) as at_us, min(first_interval_us) // 2 as before_us, min(last_interval_us) // 2 as after_us
    from seen
    group by gpu
),
other as (
    select distinct c.gpu from context c join last l on l.gpu = c.gpu where c.cluster <> $cluster
),
span as materialized (
    select
        c.gpu,
        c.cluster = $cluster as here,
        s.hour_us,
        min(s.first_us) as first_us,
        max(s.last_us) as last_us,
        sum(s.samples)::bigint as samples
    from context_span s
    join context c using (context_id)
    where c.gpu in (select gpu from other)
    group by all
),
-- Two spans of one hour that overlap. `pause`: one lies in a pause of the other, which has fewer samples than the hour has room for.
overlap as (
    select
        o.here,
        l.*,
        i.first_us,
        i.last_us,
        o.first_us as outer_first_us,
        o.last_us as outer_last_us,
        i.first_us - o.first_us > l.before_us and o.last_us - i.last_us > l.before_us
        and o.samples * 2 * l.before_us < o.last_us - o.first_us - (i.last_us - i.first_us) // 2 as pause
    from span o
    join span i
        on i.gpu = o.gpu and i.hour_us = o.hour_us and i.here <> o.here and i.first_us <= o.last_us and i.last_us >= o.first_us
        and (i.first_us > o.first_us or (i.first_us = o.first_us and o.here))
    join last l on l.gpu = o.gpu
),
met as (
    select gpu, not bool_and(pause) as two_names from overlap group by gpu
),
edge as (
    select *, here is distinct from lag(here) over in_time as begins
    from span
    window in_time as (partition by gpu order by first_us, last_us, here)
),
numbered as (
    select *, count(case when begins then 1 end) over (partition by gpu order by first_us, last_us, here rows unbounded preceding) as number
    from edge
),
turn as (
    select gpu, number, any_value(here) as here, min(first_us) as first_us, max(last_us) as last_us
    from numbered
    group by gpu, number
),
between_two as (
    select
        *,
        lag(last_us) over in_time as before_us,
        lead(first_us) over in_time as next_us
    from turn
    window in_time as (partition by gpu order by number)
),
gone as (
    select
        s.gpu,
        coalesce(
            bool_or(s.first_us > l.at_us) and not bool_or(s.first_us <= l.at_us and s.last_us >= l.at_us), false
        ) as gone
    from span s
    join last l using (gpu)
    where not s.here
    group by s.gpu
)
select
    g.gpu,
    g.gone,
    case
        when t.gpu is null then null
        when t.before_us is null then 0
        else t.before_us + least(l.after_us, (t.first_us - t.before_us) // 2)
    end as from_us,
    case
        when t.gpu is null then null
        when t.next_us is null then 9223372036854775807
        else greatest(
            t.next_us - l.before_us, t.last_us + least($interval_us_max // 2, (t.next_us - t.last_us) // 2)
        )
    end as to_us
from gone g
join last l using (gpu)
left join met m on m.gpu = g.gpu
left join between_two t
    on t.gpu = g.gpu and not t.here and not coalesce(m.two_names, false)
    and coalesce(t.before_us < t.first_us, true) and coalesce(t.next_us > t.last_us, true)
union all
select o.gpu, g.gone, unnest(v.from_us), unnest(v.to_us)
from overlap o
join gone g using (gpu)
join met m using (gpu)
cross join lateral (
    select
        case when o.here then [o.first_us - o.before_us] else [o.outer_first_us, o.last_us + o.after_us] end as from_us,
        case
            when o.here then [o.last_us + o.after_us]
            else [o.first_us - o.before_us, o.outer_last_us + o.after_us]
        end as to_us
) v
where not m.two_names;
