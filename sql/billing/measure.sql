-- A row is a group of the ledger as far as it is shown ($whole: the window is one group), and its measures in a currency, or
-- without a rate: units as in billing/ledger_bucket.sql, amounts are units times price. At most $groups groups, those with
-- the most avoidable time; with $claimed_only those of which findings claim below-peak time.
with measured as (
    select
        s.*,
        k.gpu_model,
        k.mig_profile,
        k.slice,
        k.cluster,
        k.pool,
        k.devices,
        k.currency,
        k.lacks,
        (s.share_num * ($scale // s.share_den))::hugeint as weight,
        weight * k.price as value,
        working(s.below_roof, s.memory_roof, s.compute, s.claimed) as working,
        avoidable(s.hoarded, s.gap, s.communication, s.stalled, s.stranded, s.below_roof, s.claimed) as avoidable
    from ledger_group s
    join kind k using (kind_id)
    where s.shown
),
summed as (
    select
        case
            when not $whole
                then {
                    'step': case when $steps then step end,
                    'period': nullif(
            concat_ws(
                '|',
                case when $by_day then strftime(make_timestamp(step * $step_us), '%Y-%m-%d') end,
                case when $by_week then strftime(make_timestamp(step * $step_us), '%G-W%V') end,
                case when $by_month then strftime(make_timestamp(step * $step_us), '%Y-%m') end
            ),
            ''
        ),
                    'words': words,
                    'devices': devices,
                    'team': team,
                    'user': "user",
                    'queue': queue,
                    'namespace': namespace,
                    'account': account,
                    'job': job,
                    'gpu_model': case when $by_gpu_model then gpu_model end,
                    'mig_profile': case when $by_mig_profile then mig_profile end,
                    'slice': slice,
                    'cluster': case when $by_cluster then cluster end,
                    'pool': case when $by_pool then pool end
                }
        end as words,
        currency,
        lacks,
        sum(working * weight) as working_units,
        sum(avoidable * weight) as avoidable_units,
        sum((schedulable + mig_remainder) * weight) as free_units,
        sum(unobserved * weight) as not_measured_units,
        sum(out_of_service * weight) as out_of_service_units,
        sum(stranded * weight) as stranded_units,
        sum((memory_roof + compute) * weight) as at_roof_units,
        sum(least(claimed, below_roof) * weight) as claimed_units,
        sum(working * value) as working_amount,
        sum(avoidable * value) as avoidable_amount,
        sum((schedulable + mig_remainder) * value) as free_amount,
        sum(unobserved * value) as not_measured_amount,
        sum(out_of_service * value) as out_of_service_amount,
        sum(least(claimed, below_roof) * value) as claimed_amount
    from measured
    group by all
),
sized as (
    select *, sum(avoidable_units) over (partition by words) as avoidable_whole
    from summed
),
ranked as (
    select *, dense_rank() over (order by avoidable_whole desc, words) as place
    from sized
)
select words, place, currency, lacks, columns('_(units|amount)$')::varchar as '\0'
from ranked
where case when $claimed_only then claimed_units > 0 else place <= $groups end
order by place, currency;
