-- A row is how much of a finding's time within the window has one price: units / den GPU-microseconds of one bucket.
with claimed as (
    select f.key, f.detector, c.*
        exclude (detector)
    from finding f
    join granted_claim c
        on c.detector = f.detector and c.cluster = f.cluster and c.subject_kind = f.subject_kind
        and c.subject_id = f.subject_id
        and is_claim_of(c.cause_us, c.verdict_us, f.cause_us, f.started_us, f.last_seen_us)
        and not is_withdrawn(f.resolved_reason)
    where c.hour_us >= $since_us and c.hour_us < $until_us
)
select
    c.key,
    c.bucket,
    p.usd_per_gpu_hour,
    p.currency,
    -- An hour with two prices is divided as the prices divide it.
    sum(
        (least(p.end_us, c.hour_us + 3600000000) - greatest(p.start_us, c.hour_us))::hugeint * c.us * c.share_num
    )::varchar as units,
    (c.share_den::hugeint * 3600000000)::varchar as den
from claimed c
join device_price p
    on p.device_id = c.device_id and p.cluster = c.cluster and p.profile is not distinct from c.profile
    and p.start_us < c.hour_us + 3600000000 and p.end_us > c.hour_us
group by c.key, c.bucket, p.usd_per_gpu_hour, p.currency, c.share_den
order by c.key, c.bucket, p.usd_per_gpu_hour, den;
