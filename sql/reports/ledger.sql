-- A row of book is a group of the books at one price: microseconds of its devices in each bucket. Groups are numbers here;
-- run_id is any run of the group, by which its words are joined.
create or replace temp table book as
with
-- Whole hours come from ledger_hour; an hour that the window or a new price cuts comes from its segments and minutes.
cut_edge as (
    select $start_us as at_us
    union
    select $end_us
    union
    select start_us from priced_device where start_us > $start_us and start_us < $end_us
),
cut_hour as (
    select distinct at_us // 3600000000 * 3600000000 as hour_us from cut_edge where at_us % 3600000000 <> 0
),
cut_at as (
    select hour_us, greatest(hour_us, $start_us) as at_us from cut_hour
    union
    select hour_us, least(hour_us + 3600000000, $end_us) from cut_hour
    union
    select h.hour_us, e.at_us
    from cut_hour h
    join cut_edge e on e.at_us > h.hour_us and e.at_us < h.hour_us + 3600000000
),
cut_span as (
    select hour_us, at_us as from_us, lead(at_us) over (partition by hour_us order by at_us) as to_us
    from cut_at
    qualify to_us is not null
),
cut_segment as (
    select
        s.*,
        greatest(s.start_us, h.from_us) as from_us,
        least(s.end_us, h.to_us) as to_us
    from segment s
    join cut_span h on s.start_us < h.to_us and s.end_us > h.from_us
    where ($cluster is null or s.cluster = $cluster)
),
-- A minute that an edge cuts is divided in proportion, by cumulative rounding in the order of the buckets.
cumulative as (
    select
        m.device_id,
        m.start_us,
        m.end_us - m.start_us as length_us,
        greatest(m.start_us, h.from_us) - m.start_us as a,
        least(m.end_us, h.to_us) - m.start_us as b,
        m.unobserved_us as s1,
        s1 + m.hoarded_us as s2,
        s2 + m.gap_us as s3,
        s3 + m.communication_us as s4,
        s4 + m.stalled_us as s5,
        s5 + m.below_roof_us as s6,
        s6 + m.memory_roof_us as s7,
        s7 + m.compute_us as s8
    from device_minute m
    join cut_span h on h.hour_us = m.hour_us and m.start_us < h.to_us and m.end_us > h.from_us
    where ($cluster is null or m.cluster = $cluster)
),
cut_minute as (
    select
        device_id,
        start_us + a as from_us,
        (s8 * b + length_us // 2) // length_us - (s8 * a + length_us // 2) // length_us as observed_us,
        (s1 * b + length_us // 2) // length_us - (s1 * a + length_us // 2) // length_us as c1,
        (s2 * b + length_us // 2) // length_us - (s2 * a + length_us // 2) // length_us as c2,
        (s3 * b + length_us // 2) // length_us - (s3 * a + length_us // 2) // length_us as c3,
        (s4 * b + length_us // 2) // length_us - (s4 * a + length_us // 2) // length_us as c4,
        (s5 * b + length_us // 2) // length_us - (s5 * a + length_us // 2) // length_us as c5,
        (s6 * b + length_us // 2) // length_us - (s6 * a + length_us // 2) // length_us as c6,
        (s7 * b + length_us // 2) // length_us - (s7 * a + length_us // 2) // length_us as c7
    from cumulative
),
cut_observed as (
    select
        s.device_id,
        s.start_us,
        s.from_us,
        sum(m.observed_us) as observed_us,
        sum(m.c1) as unobserved_us,
        sum(m.c2 - m.c1) as hoarded_us,
        sum(m.c3 - m.c2) as gap_us,
        sum(m.c4 - m.c3) as communication_us,
        sum(m.c5 - m.c4) as stalled_us,
        sum(m.c6 - m.c5) as below_roof_us,
        sum(m.c7 - m.c6) as memory_roof_us,
        sum(m.observed_us - m.c7) as compute_us
    from (select distinct device_id, start_us, from_us, to_us from cut_segment where run_id is not null) s
    join cut_minute m on m.device_id = s.device_id and m.from_us >= s.from_us and m.from_us < s.to_us
    group by all
),
hour as (
    select
        cluster,
        hour_us as at_us,
        device_id,
        run_id,
        share_num,
        share_den,
        profile,
        schedulable_us,
        stranded_us,
        out_of_service_us,
        mig_remainder_us,
        unobserved_us,
        hoarded_us,
        gap_us,
        communication_us,
        stalled_us,
        below_roof_us,
        memory_roof_us,
        compute_us
    from ledger_hour
    where hour_us >= $start_us and hour_us + 3600000000 <= $end_us
        and hour_us not in (select hour_us from cut_hour)
        and ($cluster is null or cluster = $cluster)
    union all
    select
        s.cluster,
        s.from_us,
        s.device_id,
        s.run_id,
        s.share_num,
        s.share_den,
        s.profile,
        case when s.free_bucket = 'schedulable' then s.to_us - s.from_us else 0 end,
        case when s.free_bucket = 'stranded' then s.to_us - s.from_us else 0 end,
        case when s.free_bucket = 'out_of_service' then s.to_us - s.from_us else 0 end,
        case when s.free_bucket = 'mig_remainder' then s.to_us - s.from_us else 0 end,
        case
            when s.run_id is not null
                then s.to_us - s.from_us - coalesce(o.observed_us, 0) + coalesce(o.unobserved_us, 0)
            else 0
        end,
        coalesce(o.hoarded_us, 0),
        coalesce(o.gap_us, 0),
        coalesce(o.communication_us, 0),
        coalesce(o.stalled_us, 0),
        coalesce(o.below_roof_us, 0),
        coalesce(o.memory_roof_us, 0),
        coalesce(o.compute_us, 0)
    from cut_segment s
    left join cut_observed o
        on s.run_id is not null
        and o.device_id = s.device_id and o.start_us = s.start_us and o.from_us = s.from_us
),
run_owner as (
    select
        r.cluster,
        r.run_id,
        coalesce(t.team, '__unallocated__') as team,
        dense_rank() over (
            order by
                case when $by_team then coalesce(t.team, '__unallocated__') end,
                case when $by_user then r.user_name end,
                case when $by_queue then r.queue end,
                case when $by_namespace then r.namespace end,
                case when $by_account then r.account end,
                case when $by_job then r.job_id end
        )::integer as owner_id
    from run r
    left join run_team t on t.run_id = r.run_id and t.cluster = r.cluster
    where ($cluster is null or r.cluster = $cluster)
        and r.run_id in (
            select run_id from ledger_hour where hour_us < $end_us and hour_us + 3600000000 > $start_us
            union all
            select run_id from segment where start_us < $end_us and end_us > $start_us
        )
)
select
    h.at_us // $step_us as step,
    h.run_id is not null as held,
    r.owner_id,
    any_value(h.cluster) as cluster,
    any_value(h.run_id) as run_id,
    p.kind_id,
    h.share_num,
    h.share_den,
    sum(h.schedulable_us) as schedulable,
    sum(h.stranded_us) as stranded,
    sum(h.out_of_service_us) as out_of_service,
    sum(h.mig_remainder_us) as mig_remainder,
    sum(h.unobserved_us) as unobserved,
    sum(h.hoarded_us) as hoarded,
    sum(h.gap_us) as gap,
    sum(h.communication_us) as communication,
    sum(h.stalled_us) as stalled,
    sum(h.below_roof_us) as below_roof,
    sum(h.memory_roof_us) as memory_roof,
    sum(h.compute_us) as compute
from hour h
join priced_device p
    on p.device_id = h.device_id and p.profile is not distinct from h.profile and p.cluster = h.cluster
    and p.start_us <= h.at_us and p.end_us > h.at_us
left join run_owner r on r.run_id = h.run_id and r.cluster = h.cluster
where $teams is null
    or list_contains(
        $teams::varchar[],
        case when h.run_id is null then '__platform__' else coalesce(r.team, '__unallocated__') end
    )
group by all;

-- A row of booked is a group of the books and a bucket: units are device microseconds times share, in parts of
-- 1 / $scale; amount is units times the price of priced_device.
create or replace temp table booked as
with long as (
    unpivot book
    on
        schedulable, stranded, out_of_service, mig_remainder, unobserved, hoarded, gap, communication, stalled,
        below_roof, memory_roof, compute
    into name bucket value us
),
summed as (
    select
        step,
        held,
        owner_id,
        any_value(cluster) as cluster,
        any_value(run_id) as run_id,
        kind_id,
        bucket,
        sum(us * share_num * ($scale // share_den)) as units
    from long
    where us > 0
    group by step, held, owner_id, kind_id, bucket
)
select
    s.step,
    case
        when $by_team then case when s.held then coalesce(t.team, '__unallocated__') else '__platform__' end
    end as team,
    case when $by_user then r.user_name end as user,
    case when $by_queue then r.queue end as queue,
    case when $by_namespace then r.namespace end as namespace,
    case when $by_account then r.account end as account,
    case when $by_job then r.job_id end as job,
    case when $by_gpu_model then k.gpu_model end as gpu_model,
    case when $by_mig_profile then k.mig_profile end as mig_profile,
    k.slice,
    case when $by_cluster then k.cluster end as cluster,
    case when $by_pool then k.pool end as pool,
    s.bucket,
    list_position(
        [
            'schedulable', 'stranded', 'out_of_service', 'mig_remainder', 'unobserved', 'hoarded', 'gap',
            'communication', 'stalled', 'below_roof', 'memory_roof', 'compute'
        ],
        s.bucket
    ) as bucket_place,
    s.held,
    k.currency,
    k.lacks,
    null::bigint as first_us,
    sum(s.units) as units,
    sum(s.units * k.price) as amount
from summed s
join kind k using (kind_id)
left join run r on r.run_id = s.run_id and r.cluster = s.cluster
left join run_team t on t.run_id = s.run_id and t.cluster = s.cluster
group by all;
