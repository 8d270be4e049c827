-- Claims of a rule that is tried, beside those that the others have stored: only this rule's are dealt anew.
create or replace temp table dry_claim as
with said as (
    select detector, cluster, subject_kind, subject_id, cause_us, start_us as verdict_us, unnest(claims) as claim
    from new_verdict
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
from said
where claim.us > 0
group by all;

create or replace temp table wanted_claim as
select * from dry_claim
union all by name
select *
from verdict_claim
where cluster = $cluster and detector <> $detector
    and (device_id, hour_us, bucket) in (select (device_id, hour_us, bucket) from dry_claim);

create or replace temp table touched_subject as
select distinct subject_kind, subject_id, cause_us from new_verdict;
