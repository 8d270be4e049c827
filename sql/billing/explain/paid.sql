-- What each line costs under the policy of its days: of time that was held what the basis charges, times the discount of its
-- run; all of unheld time. As in billing/policy_charges/line.sql. Buckets are read only where a basis tells them apart.
create or replace temp table charge_line as
select
    t.* exclude (amount),
    coalesce(f.factor, 10000) as factor,
    case
        when t.run_id is null then t.amount
        else
            case
                when y.asleep = 10000 and y.active = 10000 then t.device_us::hugeint * $basis_parts
                else
                    coalesce(
                        (b.hoarded + b.gap)::hugeint * (y.asleep * $basis_parts // 10000)
                        + (b.communication + b.stalled + b.below_roof)::hugeint * (y.active * $basis_parts // 10000)
                        + (b.unobserved + b.memory_roof + b.compute)::hugeint * $basis_parts,
                        0
                    )
            end
            * (t.share_num * ($scale // t.share_den))
            * coalesce(f.factor * $factor_parts // 10000, $factor_parts)
            * (t.price // ($basis_parts * $factor_parts))
    end as amount
from charge_line t
join policy_span y on y.policy = t.policy and y.start_us <= t.start_us and y.end_us > t.start_us
left join line_bucket b on b.key = t.key
left join run_factor f on f.run_id = t.run_id and f.policy = t.policy;
