-- A row of replay_hold is an idle run of a device while one job held it: from when to when, and until when the job held the device.
-- Reads job_chain and held (sql/views/job_chain.sql).
-- sure: it is known that the job held this device. left_alone: a server that must stay ready, or exempt by its label.
create or replace temp table replay_hold as
with linked as (
    select
        *,
        start_us is distinct from lag(end_us) over (partition by device_id order by start_us) as begins
    from idle_span
    where cluster = $cluster and hour_us >= $since_us and hour_us < $until_us and not free
),
numbered as (
    select *, count(case when begins then 1 end) over (partition by device_id order by start_us) as number
    from linked
),
idle_run as (
    select device_id, min(start_us) as start_us, max(end_us) as end_us
    from numbered
    group by device_id, number
    having max(end_us) > $from_us
),
-- Spans of one run that follow without a break are one hold: a new share of the device begins a span, too.
owned as (
    select
        *,
        start_us is distinct from lag(end_us) over (partition by device_id, run_id order by start_us) as begins
    from held
    where device_id in (select device_id from idle_run)
),
counted as (
    select *, count(case when begins then 1 end) over (partition by device_id, run_id order by start_us) as number
    from owned
),
hold as (
    select
        device_id,
        run_id,
        min(start_us) as start_us,
        max(end_us) as end_us,
        bool_and(sure) as sure
    from counted
    group by device_id, run_id, number
),
idle as (
    select
        h.device_id,
        h.run_id,
        c.scheduler,
        c.job_id,
        coalesce(t.team, '__unallocated__') as team,
        -- What lies before the end of an exemption stays exempt.
        greatest(i.start_us, h.start_us, case when c.exempt then 0 else coalesce(c.exempt_until_us, 0) end) as start_us,
        least(i.end_us, h.end_us) as end_us,
        h.end_us as hold_end_us,
        h.sure,
        c.exempt or c.latency_critical as left_alone
    from idle_run i
    join hold h on h.device_id = i.device_id and h.start_us < i.end_us and h.end_us > i.start_us
    join job_chain c using (run_id)
    left join run_team t on t.cluster = $cluster and t.run_id = h.run_id
    where $teams is null or list_contains($teams::varchar[], coalesce(t.team, '__unallocated__'))
)
select row_number() over (order by device_id, start_us, run_id) as number, *
from idle
where end_us > start_us and end_us > $from_us and start_us < $until_us;

-- A row of replay_resumed is an idle run after which the job used the device again within the hour, before it gave it back. A device
-- was busy in a minute of which at least 2 % were measured as busy: that is what the ledger calls not idle.
create or replace temp table replay_resumed as
-- Devices and hours are looked up together, and minutes are judged afterwards: nearly all of them are passed over. The id of a device
-- has its cluster in it.
with looked_up as materialized (
    select *
    from device_minute
    where (device_id, hour_us) in (select (device_id, end_us // 3600000000 * 3600000000) from replay_hold)
),
busy as (
    select device_id, hour_us, start_us
    from looked_up
    where hour_us < $until_us
        and (communication_us + stalled_us + below_roof_us + memory_roof_us + compute_us)::bigint * 50
            >= end_us - start_us
)
select distinct h.number
from replay_hold h
join busy b
    on b.device_id = h.device_id and b.hour_us = h.end_us // 3600000000 * 3600000000
    and b.start_us >= h.end_us and b.start_us < h.hold_end_us;

-- Of the others, those after which the job used the device again in a later hour.
insert into replay_resumed
with later as (
    select
        number,
        device_id,
        hold_end_us,
        unnest(
            range(end_us // 3600000000 * 3600000000 + 3600000000, least(hold_end_us, $until_us), 3600000000)
        ) as hour_us
    from replay_hold
    where number not in (select number from replay_resumed)
),
looked_up as materialized (
    select *
    from device_minute
    where (device_id, hour_us) in (select (device_id, hour_us) from later)
),
busy as (
    select device_id, hour_us, start_us
    from looked_up
    where (communication_us + stalled_us + below_roof_us + memory_roof_us + compute_us)::bigint * 50
        >= end_us - start_us
)
select distinct l.number
from later l
join busy b on b.device_id = l.device_id and b.hour_us = l.hour_us and b.start_us < l.hold_end_us;

-- A row of replay_idle is a row of replay_hold, and whether the job used the device again.
create or replace temp table replay_idle as
select * exclude (hold_end_us), number in (select number from replay_resumed) as resumed
from replay_hold;

-- A row of replay_taken is an idle run and a limit that it exceeds: the part of the window in which the device would have been
-- taken from its job. Limit 0 is all of the idle time.
create or replace temp table replay_taken as
select
    i.* exclude (start_us, end_us, sure, left_alone),
    l.limit_us,
    i.start_us + l.limit_us as taken_us,
    greatest(i.start_us + l.limit_us, $from_us) as start_us,
    least(i.end_us, $until_us) as end_us
from replay_idle i
join (select unnest($limits::bigint[]) as limit_us) l
    on greatest(i.start_us + l.limit_us, $from_us) < least(i.end_us, $until_us)
where i.sure and not i.left_alone;
