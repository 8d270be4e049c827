-- Divides the free time of the slice's hours into schedulable and stranded: the lost part of each state is stranded,
-- rounded to whole microseconds.
delete from stranding where cluster = $cluster and hour_us in (select hour_us from strand_hour);

insert into stranding
select
    $cluster,
    s.hour_us,
    s.place,
    nullif(s.model, ''),
    s.partitioned,
    j.milli,
    j.gpus,
    s.start_us,
    s.end_us,
    j.lost,
    j.misfit,
    j.weight
from free_state s
join part_judged j
    on j.day_us = s.hour_us // 86400000000 * 86400000000 and j.partitioned = s.partitioned and j.model = s.model
    and j.parts = s.parts
order by s.hour_us, s.place, s.start_us, j.milli;

update ledger_hour as l
set
    schedulable_us = l.schedulable_us + l.stranded_us - f.stranded_us,
    stranded_us = f.stranded_us
from (
    select
        s.hour_us,
        s.device_id,
        s.share_num,
        s.share_den,
        coalesce(s.profile, '') as profile,
        sum(
            (2 * (least(t.end_us, s.end_us) - greatest(t.start_us, s.start_us))::hugeint * t.lost + t.weight)
            // (2 * t.weight)
        )::bigint as stranded_us
    from free_slot s
    join stranding t
        on t.cluster = $cluster and t.hour_us = s.hour_us and t.place = s.place and coalesce(t.model, '') = s.model
        and t.partitioned = s.partitioned and t.milli = s.milli
        and t.start_us < s.end_us and t.end_us > s.start_us
    where s.idle
    group by all
) f
where l.cluster = $cluster
    and l.hour_us = f.hour_us
    and l.device_id = f.device_id
    and l.run_id is null
    and l.share_num = f.share_num
    and l.share_den = f.share_den
    and coalesce(l.profile, '') = f.profile
    and l.stranded_us <> f.stranded_us;

-- The requests that whole days were evaluated with. A day with other hours in the ledger keeps the record for those.
create or replace temp table whole_day as
select day_us, requests, digest
from asked_now
where day_us not in (
    select hour_us // 86400000000 * 86400000000
    from ledger_hour
    where cluster = $cluster and hour_us not in (select hour_us from strand_hour)
        and hour_us >= (select min(day_us) from asked_now)
        and hour_us < (select max(day_us) from asked_now) + 86400000000
);

delete from asked_day where cluster = $cluster and day_us in (select day_us from whole_day);

insert into asked_day by name select $cluster as cluster, * from whole_day;
