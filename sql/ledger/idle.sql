-- A row of company is a span of a device that is divided by process use, and when its set of owners began: new shares do
-- not mean new owners.
create or replace temp table company as
with member as (
    select device_id, start_us, end_us, sum(hash(run_id)::hugeint) as members
    from segment
    where cluster = $cluster and start_us < $piece_until_us and end_us > $piece_from_us and run_id is not null
        and device_id in (
            select device_id
            from segment
            where cluster = $cluster and split = 'process' and start_us < $piece_until_us and end_us > $piece_from_us
        )
    group by device_id, start_us, end_us
),
linked as (
    select
        *,
        (start_us, members) is distinct from (
            lag(end_us) over (partition by device_id order by start_us),
            lag(members) over (partition by device_id order by start_us)
        ) as begins
    from member
)
select
    device_id,
    start_us as span_us,
    max(case when begins then start_us end) over (partition by device_id order by start_us) as company_us
from linked;

-- A row of idle_piece is an idle piece of a held or watched device, with the start and the length of the idle run it lies in.
-- A busy piece, an unmeasured piece or a new owner ends a run.
create or replace temp table idle_piece as
with idle as (
    select p.device_id, p.span_us, p.from_us, p.to_us, p.watched, coalesce(c.company_us, p.span_us) as company_us
    from piece p
    left join company c on c.device_id = p.device_id and c.span_us = p.span_us
    where p.idle and p.span_us is not null
),
linked as (
    select
        *,
        from_us is distinct from lag(to_us) over (partition by device_id, company_us order by from_us) as begins
    from idle
),
placed as materialized (
    select
        *,
        max(case when begins then from_us end) over (partition by device_id, company_us order by from_us)
            as run_start_us
    from linked
),
idle_run as (
    -- One reading is an average over seconds; it is no evidence for a quarter of an hour.
    select device_id, company_us, run_start_us, max(to_us) as run_end_us, count(*) >= 3 as proven
    from placed
    group by device_id, company_us, run_start_us
)
select p.device_id, p.span_us, p.from_us, p.watched, p.run_start_us, r.run_end_us, r.proven
from placed p
join idle_run r using (device_id, company_us, run_start_us);

insert into idle_span by name
with idle_run as (
    select distinct device_id, run_start_us, run_end_us, watched
    from idle_piece
    where proven and run_end_us - run_start_us >= $idle_span_us_min
)
select
    $cluster as cluster,
    h.hour_us,
    r.device_id,
    greatest(r.run_start_us, h.hour_us) as start_us,
    least(r.run_end_us, h.hour_us + 3600000000) as end_us,
    r.watched as free
from idle_run r
join slice_hour h on r.run_start_us < h.hour_us + 3600000000 and r.run_end_us > h.hour_us;
