-- A row is a kind of record with times in a span that only a wrong clock gave, how many there are, and their first and last time.
with found as (
    select 'sample' as kind, observed_us as at_us
    from sample
    where observed_us >= $from_us and observed_us < $until_us
    union all
    select 'sample', observed_us
    from sample_tail
    where observed_us >= $from_us and observed_us < $until_us
    union all
    select 'claim', greatest(start_us, end_us, evidence_us)
    from claim
    where (start_us >= $from_us and start_us < $until_us)
        or (end_us >= $from_us and end_us < $until_us)
        or (evidence_us >= $from_us and evidence_us < $until_us)
    union all
    select 'pending', greatest(submit_us, evidence_us)
    from pending
    where (submit_us >= $from_us and submit_us < $until_us) or (evidence_us >= $from_us and evidence_us < $until_us)
    union all
    select 'node', observed_us
    from node
    where observed_us >= $from_us and observed_us < $until_us
    union all
    select 'queue', observed_us
    from queue
    where observed_us >= $from_us and observed_us < $until_us
    union all
    select 'workload', observed_us
    from workload
    where observed_us >= $from_us and observed_us < $until_us
    union all
    select 'reservation', observed_us
    from reservation
    where observed_us >= $from_us and observed_us < $until_us
    union all
    select 'event', last_us
    from event
    where last_us >= $from_us and last_us < $until_us
    union all
    select 'link', observed_us
    from link
    where observed_us >= $from_us and observed_us < $until_us
)
select kind, count(*) as rows, min(at_us) as first_us, max(at_us) as last_us
from found
group by kind
order by kind;
