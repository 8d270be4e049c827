-- The measures of GPU time: sums of buckets, in any unit. claimed: what findings claim of below_roof, which is avoidable from
-- then on. gpuwatch/ledger/measures.py names the same buckets.
create or replace temp macro working(below_roof, memory_roof, compute, claimed) as
    below_roof - least(claimed, below_roof) + memory_roof + compute;

create or replace temp macro avoidable(hoarded, gap, communication, stalled, stranded, below_roof, claimed) as
    hoarded + gap + communication + stalled + stranded + least(claimed, below_roof);

-- A row of claimed_hour is how much of the below_roof time of a device, run and hour findings claim.
create or replace temp view claimed_hour as
select cluster, device_id, run_id, hour_us, profile, share_num, share_den, sum(us)::bigint as claimed_us
from granted_claim
where bucket = 'below_roof'
group by cluster, device_id, run_id, hour_us, profile, share_num, share_den;
