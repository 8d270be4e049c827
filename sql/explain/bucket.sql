-- A row of told_bucket is a line and its device microseconds in each bucket, of the hours that are booked.
create or replace temp table told_bucket as
select
    t.key,
    sum(p.schedulable_us)::bigint as schedulable,
    sum(p.stranded_us)::bigint as stranded,
    sum(p.out_of_service_us)::bigint as out_of_service,
    sum(p.mig_remainder_us)::bigint as mig_remainder,
    sum(p.unobserved_us)::bigint as unobserved,
    sum(p.hoarded_us)::bigint as hoarded,
    sum(p.gap_us)::bigint as gap,
    sum(p.communication_us)::bigint as communication,
    sum(p.stalled_us)::bigint as stalled,
    sum(p.below_roof_us)::bigint as below_roof,
    sum(p.memory_roof_us)::bigint as memory_roof,
    sum(p.compute_us)::bigint as compute
from told_line t
join piece p
    on p.kind_id = t.kind_id
    and p.run_id is not distinct from t.run_id
    and p.share_num = t.share_num
    and p.share_den = t.share_den
    and p.step * 3600000000 < t.end_us
    and (p.step + 1) * 3600000000 > t.start_us
where t.key between $first and $last
group by t.key;
