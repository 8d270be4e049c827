-- A row of charge_group is a group of charges, as in billing/charge.sql: the whole days of the window, less what lies before its start,
-- and what its last day has up to its end.
create or replace temp table charge_group as
with signed as (
    select
        *,
        case when part = 1 then -1 else 1 end as sign
    from line
    where ($cluster is null or cluster = $cluster) and ($pool is null or pool = $pool)
)
select
    null::bigint as step,
    case when $by_team then owner end as team,
    user,
    queue,
    namespace,
    account,
    job,
    case when $by_gpu_model or lacks then gpu_model end as gpu_model,
    mig_profile,
    slice,
    case when $by_cluster or lacks then cluster end as cluster,
    case when $by_pool or lacks then pool end as pool,
    nullif(
            concat_ws(
                '|',
                case when $by_day then strftime(make_timestamp(day_us), '%Y-%m-%d') end,
                case when $by_week then strftime(make_timestamp(day_us), '%G-W%V') end,
                case when $by_month then strftime(make_timestamp(day_us), '%Y-%m') end
            ),
            ''
        ) as period,
    words,
    devices,
    null::varchar as bucket,
    null::integer as bucket_place,
    owner <> '__platform__' as held,
    kind,
    case when $by_cause or external then cause end as cause,
    external,
    coalesce(list_contains($teams::varchar[], owner), true) as shown,
    currency,
    lacks,
    greatest(min(day_us), $start_us) as first_us,
    sum(units * sign) as units,
    sum(amount * sign) as amount
from signed
group by all
having sum(units * sign) <> 0 or sum(amount * sign) <> 0;

-- A row of keyed is a row of charge_group and its number (sql/ledger/totals/round.sql).
create or replace temp view keyed as select rowid as key, * from charge_group;
