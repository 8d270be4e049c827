-- A row of charge_group is a group of the ledger and a bucket: units are device microseconds times share, in parts of
-- 1 / $scale; amount is units times the price of its kind. shown as in billing/charge.sql.
create or replace temp table charge_group as
with long as (
    unpivot ledger_group
    on
        schedulable, stranded, out_of_service, mig_remainder, unobserved, hoarded, gap, communication, stalled,
        below_roof, memory_roof, compute
    into name bucket value us
)
select
    case when $steps then s.step end as step,
    s.team,
    s.user,
    s.queue,
    s.namespace,
    s.account,
    s.job,
    case when $by_gpu_model then k.gpu_model end as gpu_model,
    case when $by_mig_profile then k.mig_profile end as mig_profile,
    k.slice,
    case when $by_cluster then k.cluster end as cluster,
    case when $by_pool then k.pool end as pool,
    nullif(
            concat_ws(
                '|',
                case when $by_day then strftime(make_timestamp(s.step * $step_us), '%Y-%m-%d') end,
                case when $by_week then strftime(make_timestamp(s.step * $step_us), '%G-W%V') end,
                case when $by_month then strftime(make_timestamp(s.step * $step_us), '%Y-%m') end
            ),
            ''
        ) as period,
    s.words,
    k.devices,
    s.bucket,
    list_position(
        [
            'schedulable', 'stranded', 'out_of_service', 'mig_remainder', 'unobserved', 'hoarded', 'gap',
            'communication', 'stalled', 'below_roof', 'memory_roof', 'compute'
        ],
        s.bucket
    ) as bucket_place,
    s.held,
    null::varchar as kind,
    null::varchar as cause,
    false as external,
    s.shown,
    k.currency,
    k.lacks,
    null::bigint as first_us,
    sum(s.us * s.share_num * ($scale // s.share_den)) as units,
    sum(s.us * s.share_num * ($scale // s.share_den) * k.price) as amount
from long s
join kind k using (kind_id)
where s.us > 0
group by all;

-- A row of keyed is a row of charge_group and its number (sql/ledger/totals/round.sql).
create or replace temp view keyed as select rowid as key, * from charge_group;
