-- A row is a device in a slot of a node: the newest one that was there, without those that were only replaced. One that was moved
-- has a row for each of its slots that nobody took after it. `former`: it is on another node now; from here_us until away_us the slot
-- had a GPU, NULL is always. A GPU that was cut otherwise has a row for each slice of each layout, and one for the time in which it was
-- whole, which may be in several parts: away_from and away_until bound the spans in which that was not so, and those in which another cluster had it.
with sliced as (
    select gpu from seen where gi >= 0
),
cut as (
    select
        c.device_id,
        c.gpu,
        c.profile,
        min(c.first_us) as first_us,
        max(c.last_us) as last_us
    from seen_context c
    where c.gi >= 0
    group by c.device_id, c.gpu, c.profile
),
whole_life as (
    select c.gpu, min(c.first_us) as first_us, max(c.last_us) as last_us, 2 * max(n.last_interval_us) as slack_us
    from seen_context c
    join seen n using (device_id)
    where c.gpu in (select gpu from sliced)
    group by c.gpu
),
life as (
    select
        c.device_id,
        c.gpu,
        c.profile,
        case when c.first_us - w.first_us <= w.slack_us then 0 else c.first_us - w.slack_us // 4 end as from_us,
        case when w.last_us - c.last_us <= w.slack_us then 9223372036854775807 else c.last_us + w.slack_us // 4 end as until_us
    from cut c
    join whole_life w using (gpu)
),
cut_span as (
    select gpu, min(from_us) as from_us, max(until_us) as until_us from life group by gpu
),
-- When only the GPU as a whole was sampled, between its slices. A GPU has a row for every hour of its history, so nothing here may
-- compare all of its rows: DuckDB does where a window's aggregate has a FILTER.
turned as (
    select
        gpu,
        gi,
        first_us,
        last_us,
        count(case when gi >= 0 then 1 end) over (partition by gpu order by first_us, gi desc) as slices
    from seen_span
),
whole_turn as (
    select w.gpu, min(w.first_us) - any_value(l.slack_us) // 4 as from_us, max(w.last_us) + any_value(l.slack_us) // 4 as until_us
    from turned w
    join whole_life l using (gpu)
    where w.gi < 0
        and not exists (
            select 1
            from seen_span o
            where o.gpu = w.gpu and o.gi >= 0 and o.first_us // 3600000000 = w.first_us // 3600000000
                and o.first_us <= w.last_us and o.last_us >= w.first_us
        )
    group by w.gpu, w.slices
),
whole_between as (
    select t.gpu, list(t.from_us order by t.from_us) as froms, list(t.until_us order by t.from_us) as untils
    from whole_turn t
    join cut_span s using (gpu)
    where t.from_us > s.from_us and t.until_us < s.until_us
    group by t.gpu
),
place as (
    select n.device_id, n.gi, n.profile, [0, l.until_us] as away_from, [l.from_us, 9223372036854775807] as away_until
    from seen n
    join life l on l.device_id = n.device_id and l.profile is not distinct from n.profile
    where n.gi >= 0
    union all
    -- The number of a slice may have been another slice before.
    select n.device_id, n.gi, l.profile, [0, l.until_us], [l.from_us, 9223372036854775807]
    from seen n
    join life l on l.device_id = n.device_id and l.profile is distinct from n.profile
    union all
    select
        n.device_id,
        -1,
        null,
        list_concat([s.from_us], coalesce(b.untils, [])),
        list_concat(coalesce(b.froms, []), [s.until_us])
    from seen n
    join cut_span s using (gpu)
    left join whole_between b using (gpu)
    where n.gi = -1 and not (s.from_us = 0 and s.until_us = 9223372036854775807 and b.gpu is null)
    union all
    select n.device_id, -1, n.profile, [], []
    from seen n
    where n.gi = -1 and n.gpu not in (select gpu from sliced)
),
other_cluster as (
    select gpu, list(from_us order by from_us) as away_from, list(to_us order by from_us) as away_until
    from elsewhere
    where from_us < to_us
    group by gpu
),
slot_from as (
    select node, slot, arg_min(case when not initial then from_us end, coalesce(from_us, 0)) as here_us
    from slot_turn
    group by node, slot
)
select
    n.device_id,
    n.node,
    null::bigint as stay,
    null::varchar as slot,
    n.gpu,
    n.gi,
    n.gpu_index,
    p.profile,
    false as former,
    null::bigint as here_us,
    null::bigint as away_us,
    list_concat(p.away_from, o.away_from, case when n.gi >= 0 then b.froms end) as away_from,
    list_concat(p.away_until, o.away_until, case when n.gi >= 0 then b.untils end) as away_until
from seen n
join place p using (device_id)
left join whole_between b using (gpu)
left join other_cluster o using (gpu)
where n.node is not null
    and n.gpu not in (select gpu from slot_turn where moved or to_us is not null)
union all
select
    n.device_id,
    t.node,
    t.number,
    t.slot,
    n.gpu,
    n.gi,
    s.gpu_index,
    n.profile,
    not t.final,
    f.here_us,
    t.to_us,
    coalesce(o.away_from, []),
    coalesce(o.away_until, [])
from slot_turn t
join stay s on s.gpu = t.gpu and s.number = t.number
join seen n on n.gpu = t.gpu and n.first_us <= s.last_us and n.last_us >= s.first_us
join slot_from f on f.node = t.node and f.slot = t.slot
left join other_cluster o on o.gpu = t.gpu
where t.moved and t.newest
    and not (n.gi = -1 and n.gpu in (select gpu from sliced))
order by node, gpu_index, gpu, gi, stay, profile;
