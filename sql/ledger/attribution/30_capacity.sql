-- A row of owned_gpu is a physical GPU and the span in which the fleet owned it: from its first to its last evidence,
-- a vanished one up to the cluster's last sample, unless another UUID took its place in the same slot, its cloud node was
-- powered down, or another cluster has it since: it leaves with its last sample here, and what a job held of it later was not here.
create or replace temp table owned_gpu as
with cluster_end as (
    select max(last_us + last_interval_us // 2) as end_us from seen
),
sampled as (
    select node, min(first_us - first_interval_us // 2) as start_us, min(first_us) as first_us
    from seen
    where node in (select node from site where off_us is null)
    group by node
),
-- A node of an inventory that ran a job an hour or more before the first sample of its GPUs was there before they were sampled:
-- they count as long as those of a node that is never sampled, unless it is a cloud node that was powered down. A GPU whose samples
-- begin later than those was added, or replaced another.
early_node as (
    select n.node, e.start_us, n.first_us + 3600000000 as until_us
    from sampled n
    join node_evidence e using (node)
    where n.node in (
            select w.node from wanted w join sampled s using (node) where not w.nested and w.start_us <= s.start_us - 3600000000
        )
),
early as (
    select s.gpu, any_value(e.start_us) as start_us
    from seen s
    join early_node e using (node)
    group by s.gpu
    having min(s.first_us) < any_value(e.until_us)
        and s.gpu not in (
            select gpu from seen_context where node is not null group by gpu having count(distinct node) > 1
        )
        and s.gpu not in (select gpu from elsewhere)
),
own as (
    select
        gpu,
        min(first_us - first_interval_us // 2) as start_us,
        max(last_us + last_interval_us // 2) as last_us,
        min(first_us) as first_sample_us,
        arg_max(node, (last_us, node)) as node
    from seen
    group by gpu
),
held as (
    select n.gpu, min(h.start_us) as start_us, max(h.end_us) as end_us
    from hold h
    join seen n using (device_id)
    group by n.gpu
),
turn as (
    select gpu, any_value(from_us) filter (where initial) as from_us, any_value(to_us) filter (where final) as to_us
    from slot_turn
    group by gpu
)
select
    o.gpu,
    least(coalesce(t.from_us, y.start_us, o.start_us), h.start_us) as start_us,
    case
        when o.gpu in (select gpu from elsewhere where gone) then o.last_us
        else greatest(coalesce(t.to_us, case when f.off_us >= o.last_us then o.last_us end, e.end_us), h.end_us)
    end as end_us,
    o.first_sample_us,
    o.last_us
from own o
cross join cluster_end e
left join turn t using (gpu)
left join early y using (gpu)
left join held h using (gpu)
left join site f on f.node = o.node;

-- A row of owned_part is a GPU and a span in which the fleet owned it without a break. It is absent while another cluster has it, and
-- while another GPU is in the slot of one that comes back to it.
create or replace temp table owned_part as
with absent as materialized (
    select distinct gpu, from_us, to_us
    from elsewhere
    where from_us < to_us
    union
    select o.gpu, o.to_us as from_us, b.from_us as to_us
    from slot_turn b
    join stay s on s.gpu = b.gpu and s.number = b.number and s.returns
    join slot_turn o on o.gpu = b.gpu and o.number = (select max(number) from stay where gpu = b.gpu and number < b.number)
    where b.from_us > o.to_us
),
edge as (
    select gpu, start_us as at_us from owned_gpu where gpu in (select gpu from absent)
    union
    select gpu, end_us from owned_gpu where gpu in (select gpu from absent)
    union
    select gpu, unnest([from_us, to_us]) from absent
),
part as (
    select gpu, at_us as start_us, lead(at_us) over (partition by gpu order by at_us) as end_us
    from edge
)
select gpu, start_us, end_us
from owned_gpu
where gpu not in (select gpu from absent)
union all
select p.gpu, p.start_us, p.end_us
from part p
join owned_gpu o on o.gpu = p.gpu and p.start_us >= o.start_us and p.end_us <= o.end_us
where not exists (select 1 from absent a where a.gpu = p.gpu and a.from_us <= p.start_us and a.to_us >= p.end_us);

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
        count(*) filter (where new_layout) over (partition by device_id, profile order by first_us) as life
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

-- A row of capacity_span is an elementary span of a device with its share of the physical GPU; the shares of one GPU
-- add up to 1, a part that no slice covers is the GPU's own row in bucket mig_remainder. Spans of slices
-- end where another method of sharing begins.
create or replace temp table capacity_span as
with edge as (
    select gpu, start_us as at_us from owned_part
    union
    select gpu, end_us from owned_part
    union
    select gpu, start_us from slice_life
    union
    select gpu, end_us from slice_life
    union
    select l.gpu, m.from_us
    from (select distinct gpu from slice_life) l
    cross join method_span m
),
span as (
    select gpu, at_us as start_us, lead(at_us) over (partition by gpu order by at_us) as end_us
    from edge
),
owned as (
    select s.*
    from span s
    join owned_part o on o.gpu = s.gpu and s.start_us >= o.start_us and s.end_us <= o.end_us
),
slice as (
    select
        o.gpu,
        o.start_us,
        o.end_us,
        l.device_id,
        l.profile,
        m.method,
        max(u.units) as units,
        any_value(u.whole) as whole
    from owned o
    join slice_life l on l.gpu = o.gpu and l.start_us <= o.start_us and l.end_us >= o.end_us
    join seen n on n.device_id = l.device_id
    join method_span m on m.from_us <= o.start_us and m.until_us > o.start_us
    join share_unit u
        on u.method = m.method and u.model is not distinct from n.model and u.profile is not distinct from l.profile
    group by all
),
layout as (
    select gpu, start_us, end_us, method, any_value(whole) as whole, sum(units)::bigint as units
    from slice
    group by all
)
select
    s.device_id,
    s.profile,
    s.start_us,
    s.end_us,
    s.units::bigint as share_num,
    greatest(l.units, s.whole) as share_den,
    s.method,
    false as remainder
from slice s
join layout l using (gpu, start_us, end_us)
union all
select w.parent_id, null, l.start_us, l.end_us, l.whole - l.units, l.whole, l.method, true
from layout l
join (select distinct gpu, parent_id from gpu_parent) w using (gpu)
where l.units < l.whole
union all
select w.parent_id, null, o.start_us, o.end_us, 1, 1, null, false
from owned o
join (select distinct gpu, parent_id from gpu_parent) w using (gpu)
where not exists (select 1 from layout l where l.gpu = o.gpu and l.start_us = o.start_us and l.end_us = o.end_us)
union all
select device_id, profile, start_us, end_us, share_num, share_den, method, false
from unseen_device;
