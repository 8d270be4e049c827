-- Adds to bucket_time what cut_segment holds, divided into buckets by cut_bucket.
insert into bucket_time by name
-- Stranded time within free time that an edge cuts: rounded from the start of each state, as the hourly ledger does.
with cut_stranded as (
    select
        s.device_id,
        s.start_us,
        s.from_us,
        s.share_num,
        sum(
            (2 * (least(t.end_us, s.to_us) - greatest(t.start_us, s.start_us))::hugeint * t.lost + t.weight)
            // (2 * t.weight)
            - (2 * (greatest(t.start_us, s.from_us) - greatest(t.start_us, s.start_us))::hugeint * t.lost + t.weight)
            // (2 * t.weight)
        )::bigint as stranded_us
    from cut_segment s
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    join stranding t
        on t.cluster = s.cluster
        and t.hour_us = s.from_us // 3600000000 * 3600000000
        and t.place = case when d.gi >= 0 then d.gpu else coalesce(d.node, d.gpu) end
        and t.model is not distinct from nullif(d.model, '')
        and t.partitioned = (d.gi >= 0) and (d.gi >= 0 or d.profile is null)
        and t.milli = case when d.gi >= 0 then 0 else 1000 * s.share_num // s.share_den end
        and t.start_us < s.to_us and t.end_us > s.from_us
    where s.run_id is null and s.free_bucket = 'schedulable' and t.lost > 0
    group by all
),
cut_piece as (
    select
        s.cluster,
        s.from_us // $step_us as step,
        s.run_id,
        s.run_id is not null as held,
        null::varchar as team,
        p.kind_id,
        s.share_num,
        s.share_den,
        case when s.free_bucket = 'schedulable' then s.to_us - s.from_us else 0 end
        - coalesce(z.stranded_us, 0) as schedulable_us,
        case when s.free_bucket = 'stranded' then s.to_us - s.from_us else 0 end
        + coalesce(z.stranded_us, 0) as stranded_us,
        case when s.free_bucket = 'out_of_service' then s.to_us - s.from_us else 0 end as out_of_service_us,
        case when s.free_bucket = 'mig_remainder' then s.to_us - s.from_us else 0 end as mig_remainder_us,
        case
            when s.run_id is not null
                then s.to_us - s.from_us - coalesce(o.observed_us, 0) + coalesce(o.unobserved_us, 0)
            else 0
        end as unobserved_us,
        coalesce(columns('^(hoarded|gap|communication|stalled|below_roof|memory_roof|compute)_us$'), 0) as '\0'
    from cut_segment s
    join unit u on u.device_id = s.device_id and u.profile is not distinct from s.profile and u.cluster = s.cluster
    join priced_unit p on p.unit_id = u.unit_id
    left join cut_bucket o
        on s.run_id is not null
        and o.device_id = s.device_id and o.start_us = s.start_us and o.from_us = s.from_us
    left join cut_stranded z
        on s.run_id is null
        and z.device_id = s.device_id and z.start_us = s.start_us and z.from_us = s.from_us
        and z.share_num = s.share_num
    -- Cut spans end where prices do. Compared this way, spans do not lead the database to join each with each.
    where greatest(s.from_us, p.start_us) < least(s.to_us, p.end_us)
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
from cut_piece
group by all;
