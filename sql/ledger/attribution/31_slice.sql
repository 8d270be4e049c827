-- A row of slice_turn is a MIG slice (or the GPU as a whole) from its first to its last sample without a long silence.
create or replace temp table slice_turn as
with linked as (
    select
        *,
        coalesce(
            first_us - max(last_us) over (
                partition by device_id, profile
                order by first_us
                rows between unbounded preceding and 1 preceding
            ) > $layout_silence_us,
            false
        ) as after_silence
    from seen_span
),
numbered as (
    select
        *,
        count(case when after_silence then 1 end) over (partition by device_id, profile order by first_us) as turn
    from linked
)
select gpu, gi, device_id, profile, turn, min(first_us) as first_us, max(last_us) as last_us
from numbered
group by all;

-- A row of slice_life is a slice within one layout. A silence is part of it unless another slice appeared meanwhile:
-- GPU-instance ids are used again after a repartition. A slice ends where one that came after its last sample begins; or with
-- its last sample, where another came shortly before it and goes on: exporters may report an old layout for a few scrapes. Slices of
-- less than an hour end with their last samples where the GPU as a whole is sampled before and after them, and no slice is.
create or replace temp table slice_life as
with linked as (
    select
        s.*,
        exists (
            select 1
            from slice_turn other
            where other.gpu = s.gpu
                and (other.device_id <> s.device_id or other.profile is distinct from s.profile)
                and other.first_us < s.first_us
                and other.first_us > (
                    select max(before.last_us)
                    from slice_turn before
                    where before.device_id = s.device_id and before.profile is not distinct from s.profile
                        and before.turn < s.turn
                )
        ) as new_layout
    from slice_turn s
),
numbered as (
    select
        *,
        count(case when new_layout then 1 end) over (partition by device_id, profile order by first_us) as life
    from linked
),
lived as (
    select gpu, gi, device_id, profile, life, min(first_us) as first_us, max(last_us) as last_us
    from numbered
    group by all
),
-- An hour stores only the first and last sample of a GPU, so samples of the whole one before and after its slices may be one row.
whole_again as (
    select l.device_id, l.profile, l.life
    from lived l
    join seen n using (device_id)
    join seen_span w
        on w.gpu = l.gpu and w.gi < 0 and w.first_us // 3600000000 = l.first_us // 3600000000
        and w.first_us < l.first_us - n.last_interval_us and w.last_us > l.last_us + 3 * n.last_interval_us
    where l.gi >= 0 and l.first_us // 3600000000 = l.last_us // 3600000000
        and not exists (
            select 1
            from seen_span other
            where other.gpu = l.gpu and other.gi >= 0
                and other.first_us <= w.last_us and other.last_us > l.last_us + 3 * n.last_interval_us
        )
    group by all
),
-- It was silent while there were slices, for less than a silence that parts its samples.
whole_next as (
    select l.device_id, l.profile, l.life, min(w.first_us) filter (where w.first_us > l.last_us) as again_us
    from lived l
    join seen_span w on w.gpu = l.gpu and w.gi < 0
    where l.gi >= 0
    group by l.device_id, l.profile, l.life
    having bool_and(w.last_us < l.first_us or w.first_us > l.last_us) and bool_or(w.last_us < l.first_us)
),
-- A number that was another slice before and after was this one in between. An hour stores only the first and last sample
-- of a slice, so the spans before and after may be one row.
between_two as (
    select l.gpu, l.first_us, l.last_us
    from lived l
    join seen n using (device_id)
    join lived other
        on other.device_id = l.device_id and other.profile is distinct from l.profile
        and other.first_us < l.first_us and other.last_us > l.last_us + 3 * n.last_interval_us
)
select
    l.gpu,
    l.device_id,
    l.profile,
    l.first_us,
    l.last_us,
    case
        when l.first_us - o.first_sample_us <= 2 * n.first_interval_us then o.start_us
        else l.first_us - n.last_interval_us // 2
    end as start_us,
    case
        when x.next_us is not null then x.next_us - n.last_interval_us // 2
        when a.device_id is not null then l.last_us + n.last_interval_us // 2
        when exists (
            select 1
            from between_two z
            where z.gpu = l.gpu
                and abs(z.first_us - l.first_us) <= 2 * n.first_interval_us
                and abs(z.last_us - l.last_us) <= 2 * n.last_interval_us
        ) then l.last_us + n.last_interval_us // 2
        when exists (
            select 1
            from lived other
            where other.gpu = l.gpu
                and other.first_us between l.last_us - $layout_silence_us and l.last_us
                and other.first_us > l.first_us + 2 * n.first_interval_us
                and other.last_us > l.last_us + 3 * n.last_interval_us
        ) then l.last_us + n.last_interval_us // 2
        else coalesce(
            (
                select min(other.first_us) - n.last_interval_us // 2
                from lived other
                where other.gpu = l.gpu and other.first_us > l.last_us
            ),
            w.again_us - n.last_interval_us // 2,
            o.end_us
        )
    end as end_us
from lived l
join owned_gpu o using (gpu)
join seen n using (device_id)
-- A number is one slice at a time.
left join (
    select l.device_id, l.profile, l.life, min(other.first_us) as next_us
    from lived l
    join lived other
        on other.device_id = l.device_id and other.first_us > l.first_us and other.first_us <= l.last_us
        and other.last_us > l.last_us and other.profile is distinct from l.profile
    group by all
) x on x.device_id = l.device_id and x.profile is not distinct from l.profile and x.life = l.life
left join whole_next w on w.device_id = l.device_id and w.profile is not distinct from l.profile and w.life = l.life
left join whole_again a on a.device_id = l.device_id and a.profile is not distinct from l.profile and a.life = l.life
where l.gi >= 0;
