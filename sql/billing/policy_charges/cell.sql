-- Adds the rows of one query to cell. Unobserved time is charged under every basis: unknown is not zero.
-- Numbers group faster than words: the words of a kind come to the sums, those of a run only where they are asked for.
insert into cell by name
with counted as (
    select
        s.step,
        s.held,
        s.kind_id,
        case when s.held then coalesce(s.team, t.team, '__unallocated__') else '__platform__' end as owner,
        case when $by_user then r.user_name end as user,
        case when $by_queue then r.queue end as queue,
        case when $by_namespace then r.namespace end as namespace,
        case when $by_account then r.account end as account,
        case when $by_job then r.job_id end as job,
        w.words,
        coalesce(f.factor * $factor_parts // 10000, $factor_parts) as factor,
        sum((s.hoarded_us + s.gap_us)::hugeint * (s.share_num * ($scale // s.share_den))) as asleep_units,
        sum(
            (s.communication_us + s.stalled_us + s.below_roof_us)::hugeint * (s.share_num * ($scale // s.share_den))
        ) as active_units,
        sum(
            (s.unobserved_us + s.memory_roof_us + s.compute_us)::hugeint * (s.share_num * ($scale // s.share_den))
        ) as paid_units,
        sum(s.schedulable_us::hugeint * (s.share_num * ($scale // s.share_den))) as schedulable_units,
        sum(s.stranded_us::hugeint * (s.share_num * ($scale // s.share_den))) as stranded_units,
        sum(s.out_of_service_us::hugeint * (s.share_num * ($scale // s.share_den))) as out_of_service_units,
        sum(s.mig_remainder_us::hugeint * (s.share_num * ($scale // s.share_den))) as mig_remainder_units
    from bucket_time s
    join policy_day y on y.day_us = s.step * 86400000000
    left join (select * from run where $by_word) r on r.run_id = s.run_id
    left join run_word w on w.run_id = s.run_id
    left join run_team t on t.run_id = s.run_id
    left join run_factor f on f.run_id = s.run_id and f.policy = y.policy
    group by all
)
select
    $part as part,
    c.step * 86400000000 as day_us,
    y.policy,
    hash(k.cluster, k.pool, k.gpu_model) as place,
    k.cluster,
    k.pool,
    k.gpu_model,
    k.mig_profile,
    k.slice,
    k.devices,
    k.currency,
    k.lacks,
    k.price,
    c.* exclude (step, kind_id)
from counted c
join kind k using (kind_id)
join policy_day y on y.day_us = c.step * 86400000000;
