-- A row of idle_piece is an idle piece of a held device, with the start and the length of the idle run it lies in.
-- A busy piece, a piece that nobody measured, or a new owner ends a run.
create or replace temp table idle_piece as
with linked as (
    select
        device_id,
        span_us,
        from_us,
        to_us,
        from_us is distinct from lag(to_us) over (partition by device_id, span_us order by from_us) as begins
    from piece
    where idle
),
placed as (
    select
        *,
        max(case when begins then from_us end) over (partition by device_id, span_us order by from_us) as run_start_us
    from linked
)
select
    device_id,
    span_us,
    from_us,
    run_start_us,
    max(to_us) over (partition by device_id, span_us, run_start_us) as run_end_us,
    -- One reading is the average of seconds: it does not prove a quarter of an hour.
    count(*) over (partition by device_id, span_us, run_start_us) >= 3 as proven
from placed;

delete from idle_span where cluster = $cluster and hour_us in (select hour_us from slice_hour);

insert into idle_span
with idle_run as (
    select distinct device_id, run_start_us, run_end_us
    from idle_piece
    where proven and run_end_us - run_start_us >= $idle_span_us_min
)
select
    $cluster,
    h.hour_us,
    r.device_id,
    greatest(r.run_start_us, h.hour_us),
    least(r.run_end_us, h.hour_us + 3600000000)
from idle_run r
join slice_hour h on r.run_start_us < h.hour_us + 3600000000 and r.run_end_us > h.hour_us;
