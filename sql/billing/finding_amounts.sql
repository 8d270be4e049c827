-- Recomputes the wasted time of the findings in regranted_finding by price.
create or replace temp table new_amount as
with claimed as (
    select f.key, c.*
    from finding f
    join regranted_finding using (key)
    join granted_claim c
        on c.detector = f.detector and c.cluster = f.cluster and c.subject_kind = f.subject_kind
        and c.subject_id = f.subject_id
        and is_claim_of(c.cause_us, c.verdict_us, f.cause_us, f.started_us, f.last_seen_us)
        and not is_withdrawn(f.resolved_reason)
    where f.cluster = $cluster
)
select
    c.key,
    c.cluster,
    c.bucket,
    d.model,
    p.usd_per_gpu_hour,
    p.currency,
    -- An hour with two prices is divided as the prices divide it.
    sum(
        (least(p.end_us, c.hour_us + 3600000000) - greatest(p.start_us, c.hour_us))::hugeint * c.us * c.share_num
    )::varchar as units,
    c.share_den::hugeint * 3600000000 as den
from claimed c
join device d on d.device_id = c.device_id and d.cluster = c.cluster
join device_price p
    on p.device_id = c.device_id and p.cluster = c.cluster and p.profile is not distinct from c.profile
    and p.start_us < c.hour_us + 3600000000 and p.end_us > c.hour_us
group by c.key, c.cluster, c.bucket, d.model, p.usd_per_gpu_hour, p.currency, c.share_den;

delete from finding_amount where cluster = $cluster and key in (select key from regranted_finding);

insert into finding_amount select * from new_amount order by key;
