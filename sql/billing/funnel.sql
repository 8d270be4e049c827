-- A row is a bucket of the ledger as far as it is shown, by whether a source measures the GPU: its sums in a currency, or
-- without a rate.
with long as (
    unpivot ledger_group
    on
        schedulable, stranded, out_of_service, mig_remainder, unobserved, hoarded, gap, communication, stalled,
        below_roof, memory_roof, compute
    into name bucket value us
),
summed as (
    select kind_id, bucket, sum(us * share_num * ($scale // share_den)) as units
    from long
    where us > 0 and shown
    group by kind_id, bucket
)
select
    s.bucket,
    k.reporting,
    k.currency,
    k.lacks,
    sum(s.units)::varchar as units,
    sum(s.units * k.price)::varchar as amount
from summed s
join kind k using (kind_id)
group by all
order by all;
