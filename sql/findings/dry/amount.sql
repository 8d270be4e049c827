-- A row is how much of a tested finding's time has one price: units / den GPU-microseconds.
select
    f.key,
    c.bucket,
    d.model,
    p.usd_per_gpu_hour,
    p.currency,
    sum(
        (least(p.end_us, c.hour_us + 3600000000) - greatest(p.start_us, c.hour_us))::hugeint * c.us * c.share_num
    )::varchar as units,
    (c.share_den::hugeint * 3600000000)::varchar as den
from found f
join granted c
    on c.detector = f.detector and c.subject_kind = f.subject_kind and c.subject_id = f.subject_id
    and is_claim_of(c.cause_us, c.verdict_us, f.cause_us, f.started_us, f.last_seen_us)
join device d on d.device_id = c.device_id and d.cluster = c.cluster
join device_price p
    on p.device_id = c.device_id and p.cluster = c.cluster and p.profile is not distinct from c.profile
    and p.start_us < c.hour_us + 3600000000 and p.end_us > c.hour_us
where c.detector = $detector
group by f.key, c.bucket, d.model, p.usd_per_gpu_hour, p.currency, c.share_den
order by f.key;
