-- What each line costs under the policy of its days: of time that was held what the basis charges, times the discount of its
-- run; of time that nobody held all of it. As in cost/line.sql, from the same hours.
create or replace temp table told_line as
select
    t.* exclude (units, amount),
    coalesce(f.factor, 10000) as factor,
    coalesce(
        case
            when t.run_id is not null
                then b.unobserved + b.hoarded + b.gap + b.communication + b.stalled + b.below_roof + b.memory_roof
                    + b.compute
            when t.free_bucket = 'schedulable' then b.schedulable
            when t.free_bucket = 'stranded' then b.stranded
            when t.free_bucket = 'out_of_service' then b.out_of_service
            else b.mig_remainder
        end,
        0
    )::hugeint * (t.share_num * ($scale // t.share_den)) as units,
    case
        when t.run_id is null then units * t.price
        else
            coalesce(
                (b.hoarded + b.gap)::hugeint * (y.asleep * $basis_parts // 10000)
                + (b.communication + b.stalled + b.below_roof)::hugeint * (y.active * $basis_parts // 10000)
                + (b.unobserved + b.memory_roof + b.compute)::hugeint * $basis_parts,
                0
            )
            * (t.share_num * ($scale // t.share_den))
            * coalesce(f.factor * $factor_parts // 10000, $factor_parts)
            * (t.price // ($basis_parts * $factor_parts))
    end as amount
from told_line t
join policy_span y on y.policy = t.policy and y.start_us <= t.start_us and y.end_us > t.start_us
left join told_bucket b on b.key = t.key
left join run_factor f on f.run_id = t.run_id and f.policy = t.policy;
