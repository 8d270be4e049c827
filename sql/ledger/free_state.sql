-- A row of free_slot is the free part of a device in one hour of the slice; for partitioned GPUs every instance has a row,
-- held ones too, because what fits next to them depends on all.
create or replace temp table free_slot as
select
    d.gi >= 0 as partitioned,
    case when d.gi >= 0 then d.gpu else coalesce(d.node, d.gpu) end as place,
    coalesce(d.model, '') as model,
    h.hour_us,
    s.device_id,
    d.gi,
    s.profile,
    s.share_num,
    s.share_den,
    s.run_id is null and s.free_bucket = 'schedulable' as idle,
    case when d.gi >= 0 then 0 else 1000 * s.share_num // s.share_den end::integer as milli,
    greatest(s.start_us, h.hour_us) as start_us,
    least(s.end_us, h.hour_us + 3600000000) as end_us
from segment s
join device d on d.device_id = s.device_id and d.cluster = s.cluster
join strand_hour h on s.start_us < h.hour_us + 3600000000 and s.end_us > h.hour_us
where s.cluster = $cluster and s.start_us < $until_us and s.end_us > $from_us
    -- A slice that only its scheduler reports is on an unknown GPU, so what fits beside it is unknown too.
    and (d.gi >= 0 or (d.profile is null and d.kind is null and s.run_id is null and s.free_bucket = 'schedulable'))
    -- GPUs of a node that only jobs name, such as the stand-ins of a trace: nothing shows how many there are, or are free.
    and (
        d.node is null
        or d.node in (select node from node where cluster = $cluster)
        or d.node in (select node from device where cluster = $cluster and measured and node is not null)
    );

-- A row of free_state is a span in which the free GPUs of a node and model stayed the same: the thousandths of each that are
-- free, least first. Of a partitioned GPU its instances in order, those that are held with a star.
create or replace temp table free_state as
with edge as (
    select partitioned, place, model, hour_us, start_us as at_us from free_slot
    union
    select partitioned, place, model, hour_us, end_us from free_slot
),
span as (
    select
        *,
        lead(at_us) over (partition by partitioned, place, model, hour_us order by at_us) as until_us
    from edge
),
device_at as (
    select
        e.partitioned,
        e.place,
        e.model,
        e.hour_us,
        e.at_us,
        e.until_us,
        s.device_id,
        any_value(s.gi) as gi,
        any_value(s.profile) as profile,
        bool_and(s.idle) as idle,
        any_value(s.milli) as milli
    from span e
    join free_slot s
        on s.partitioned = e.partitioned and s.place = e.place and s.model = e.model and s.hour_us = e.hour_us
        and s.start_us <= e.at_us and s.end_us >= e.until_us
    group by all
)
select
    partitioned,
    place,
    model,
    hour_us,
    at_us as start_us,
    until_us as end_us,
    list(
        case
            when partitioned then coalesce(profile, '') || case when idle then '' else '*' end
            else milli::varchar
        end
        order by gi, milli, device_id
    ) as parts
from device_at
group by partitioned, place, model, hour_us, at_us, until_us
having bool_or(idle);
