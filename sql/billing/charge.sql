-- A row of charge_sum is a group of charges: units are device microseconds times share, in parts of 1 / $scale; amount is
-- units times the price of its kind. kind: who pays. cause: why, NULL unless the query groups by it. external: money that is
-- not the cost of a device. Dimensions that the query does not group by are NULL. shown: the team filter
-- passes the row; hidden rows are rounded by themselves (sql/ledger/totals/round.sql).
create or replace temp table charge_sum as
with fine_segment as (
    select *
    from segment
    where start_us < getvariable('quiet_from_us') and end_us > getvariable('fine_from_us')
    union all
    select *
    from segment
    where start_us >= getvariable('quiet_from_us')
        and end_us > getvariable('quiet_until_us')
        and start_us < getvariable('fine_until_us')
),
rolled as (
    select * from team_day where $rolled = 'team_day'
    union all by name
    select * from slice_day where $rolled = 'slice_day'
    union all by name
    select *, run_id is not null as held from word_day where $rolled = 'word_day'
    union all by name
    select *, run_id is not null as held from book_day where $rolled = 'book_day'
),
charged as (
    select
        d.cluster,
        d.run_id,
        d.owner as team,
        p.word_id,
        p.price,
        d.share_num,
        d.share_den,
        d.held,
        d.first_us,
        d.day_us,
        d.charged_us as us
    from rolled d
    join whole_day w on w.cluster = d.cluster and w.day_us = d.day_us
    join priced_unit p
        on p.unit_id = case
            when $by_slice and d.device_id is not null then (hash(d.class_id, d.device_id) >> 1)::bigint
            else d.class_id
        end
        and p.start_us <= d.day_us and p.end_us > d.day_us
    where d.day_us >= $start_us and d.day_us < $end_us and d.charged_us > 0
    union all
    select
        s.cluster,
        s.run_id,
        null,
        p.word_id,
        p.price,
        s.share_num,
        s.share_den,
        s.run_id is not null,
        greatest(s.start_us, p.start_us, f.from_us),
        f.from_us // 86400000000 * 86400000000,
        least(s.end_us, p.end_us, f.to_us) - greatest(s.start_us, p.start_us, f.from_us)
    from fine_segment s
    join fine_span f on f.cluster = s.cluster and s.start_us < f.to_us and s.end_us > f.from_us
    -- Ids of devices and runs are hashes that have their cluster in them: numbers join faster without its name.
    join unit u on u.device_id = s.device_id and u.profile is not distinct from s.profile
    join priced_unit p on p.unit_id = u.unit_id
    where greatest(s.start_us, p.start_us, f.from_us) < least(s.end_us, p.end_us, f.to_us)
),
owned as (
    select
        case when s.held then coalesce(s.team, t.team, '__unallocated__') else '__platform__' end as owner,
        coalesce(list_contains($teams::varchar[], owner), true) as shown,
        case when $by_team then owner end as team,
        case when $by_user then r.user_name end as user,
        case when $by_queue then r.queue end as queue,
        case when $by_namespace then r.namespace end as namespace,
        case when $by_account then r.account end as account,
        case when $by_job then r.job_id end as job,
        nullif(
            concat_ws(
                '|',
                case when $by_day then strftime(make_timestamp(s.day_us), '%Y-%m-%d') end,
                case when $by_week then strftime(make_timestamp(s.day_us), '%G-W%V') end,
                case when $by_month then strftime(make_timestamp(s.day_us), '%Y-%m') end
            ),
            ''
        ) as period,
        w.words,
        s.held,
        s.word_id,
        s.price,
        s.us::hugeint * (s.share_num * ($scale // s.share_den)) as units,
        s.first_us
    from charged s
    left join (select * from run where $by_run) r on r.run_id = s.run_id
    left join run_word w on w.run_id = s.run_id
    left join (select * from run_team where $by_team or $teams is not null) t
        on t.run_id = s.run_id
)
-- Integers group faster than text: the names of devices are joined to the sums.
select
    held,
    shown,
    team,
    user,
    queue,
    namespace,
    account,
    job,
    period,
    words,
    word_id,
    min(first_us) as first_us,
    sum(units) as units,
    sum(units * price) as amount
from owned
group by all;

-- A row of keyed is a row of charge_sum with its words, and its number (sql/ledger/totals/round.sql).
create or replace temp view keyed as
select
    s.rowid as key,
    null::bigint as step,
    s.team,
    s.user,
    s.queue,
    s.namespace,
    s.account,
    s.job,
    k.gpu_model,
    k.mig_profile,
    k.slice,
    k.cluster,
    k.pool,
    s.period,
    s.words,
    k.devices,
    null::varchar as bucket,
    null::integer as bucket_place,
    s.held,
    case when s.held then 'allocated' else 'platform' end as kind,
    null::varchar as cause,
    false as external,
    s.shown,
    k.currency,
    k.lacks,
    s.first_us,
    s.units,
    s.amount
from charge_sum s
join (
    select distinct word_id, gpu_model, mig_profile, slice, cluster, pool, devices, currency, lacks from kind
) k using (word_id);
