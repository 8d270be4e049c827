-- A row of cut_span is a part of an hour that the window or a price change cuts; its time comes from segments and minutes.
create or replace temp table cut_span as
with edge as (
    select $start_us as at_us
    union
    select $end_us
    union
    select start_us from priced_unit where start_us > $start_us and start_us < $end_us
),
cut_hour as (
    select distinct at_us // 3600000000 * 3600000000 as hour_us from edge where at_us % 3600000000 <> 0
),
cut_at as (
    select hour_us, greatest(hour_us, $start_us) as at_us from cut_hour
    union
    select hour_us, least(hour_us + 3600000000, $end_us) from cut_hour
    union
    select h.hour_us, e.at_us
    from cut_hour h
    join edge e on e.at_us > h.hour_us and e.at_us < h.hour_us + 3600000000
)
select hour_us, at_us as from_us, lead(at_us) over (partition by hour_us order by at_us) as to_us
from cut_at
qualify to_us is not null;

-- The longest time that no cut span touches, as in billing/kind.sql.
set variable uncut = (
    with edge as (
        select
            from_us,
            max(to_us) over (order by from_us, to_us rows between unbounded preceding and 1 preceding) as before_us
        from cut_span
    )
    select arg_max({'from_us': before_us, 'until_us': from_us}, (from_us - before_us, from_us))
    from edge
    where from_us > before_us
);

set variable uncut_from_us = coalesce(getvariable('uncut').from_us, 0);

set variable uncut_until_us = coalesce(getvariable('uncut').until_us, 0);

-- A row of bucket_time is the time of devices of one kind that a run, a team or no run held: microseconds in each bucket. Whole days
-- come from $rolled (book_day or sums of it), whole hours from ledger_hour; billing/ledger_cut_bucket_time.sql adds cut hours.
-- Integers group faster than text, and runs are kept apart only where the query groups by their fields.
create or replace temp table bucket_time as
with fine_hour as (
    select *
    from ledger_hour
    where hour_us >= greatest($start_us, getvariable('fine_from_us'))
        and hour_us + 3600000000 <= least($end_us, getvariable('fine_until_us'))
        and hour_us < getvariable('quiet_from_us')
    union all
    select *
    from ledger_hour
    where hour_us >= greatest($start_us, getvariable('fine_from_us'))
        and hour_us + 3600000000 <= least($end_us, getvariable('fine_until_us'))
        and hour_us >= getvariable('quiet_from_us') and hour_us >= getvariable('quiet_until_us')
),
rolled as (
    select * from team_day where $rolled = 'team_day'
    union all by name
    select * from slice_day where $rolled = 'slice_day'
    union all by name
    select *, run_id is not null as held from word_day where $rolled = 'word_day'
    union all by name
    select *, run_id is not null as held from book_day where $rolled = 'book_day'
),
whole as (
    select
        d.cluster,
        d.day_us // $step_us as step,
        d.run_id,
        d.held,
        d.owner as team,
        p.kind_id,
        d.share_num,
        d.share_den,
        columns('^(schedulable|stranded|out_of_service|mig_remainder|unobserved|hoarded|gap|communication|stalled|below_roof|memory_roof|compute)_us$')
    from rolled d
    join whole_day w on w.cluster = d.cluster and w.day_us = d.day_us
    join priced_unit p
        on p.unit_id = case
            when $by_slice and d.device_id is not null then (hash(d.class_id, d.device_id) >> 1)::bigint
            else d.class_id
        end
        and p.start_us <= d.day_us and p.end_us > d.day_us
    where d.day_us >= $start_us and d.day_us < $end_us
    union all
    select
        l.cluster,
        l.hour_us // $step_us,
        l.run_id,
        l.run_id is not null,
        null,
        p.kind_id,
        l.share_num,
        l.share_den,
        columns('^(schedulable|stranded|out_of_service|mig_remainder|unobserved|hoarded|gap|communication|stalled|below_roof|memory_roof|compute)_us$')
    from fine_hour l
    join fine_span f on f.cluster = l.cluster and l.hour_us < f.to_us and l.hour_us >= f.from_us
    join unit u on u.device_id = l.device_id and u.profile is not distinct from l.profile and u.cluster = l.cluster
    join priced_unit p on p.unit_id = u.unit_id and p.start_us <= l.hour_us and p.end_us > l.hour_us
    where l.hour_us not in (select hour_us from cut_span)
)
select
    cluster,
    step,
    case when $by_run or $by_team or $teams is not null then run_id end as run_id,
    held,
    team,
    kind_id,
    share_num,
    share_den,
    sum(columns('_us$'))
from whole
group by all;
