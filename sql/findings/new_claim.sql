-- A row of new_claim is device time that new_result claims, summed over its list of claims.
create or replace temp table new_claim as
with listed as (
    select detector, cluster, subject_kind, subject_id, cause_us, start_us as verdict_us, unnest(claims) as claim
    from new_result
)
select
    detector,
    cluster,
    subject_kind,
    subject_id,
    cause_us,
    verdict_us,
    claim.device_id as device_id,
    claim.run_id as run_id,
    claim.hour_us as hour_us,
    claim.bucket as bucket,
    sum(claim.us::hugeint)::bigint as us
from listed
where claim.us > 0
group by all;
