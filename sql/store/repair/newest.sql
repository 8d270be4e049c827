-- One row: the newest time before an instant that a sample or a record of a scheduler gives.
select max(at_us) as at_us
from (
    select max(last_us) as at_us from context_span where last_us < $from_us
    union all
    select max(observed_us) from sample_tail where observed_us < $from_us
    union all
    select max(evidence_us) from claim where evidence_us < $from_us
    union all
    select max(observed_us) from node where observed_us < $from_us
);
