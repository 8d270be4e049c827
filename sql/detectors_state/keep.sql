-- Keeps what a rule says now: new_verdict, with its claims in a list, becomes rows of verdict and verdict_claim.
insert into verdict by name
select * exclude (claims) from new_verdict order by subject_kind, subject_id, start_us;

create or replace temp table new_claim as
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

insert into verdict_claim by name
select * from new_claim order by hour_us, device_id;

insert into claim_hour
select distinct hour_us from new_claim;

-- A row of touched_subject is one of whom something was said, or is said no more.
create or replace temp table touched_subject as
select distinct subject_kind, subject_id, cause_us from old_verdict
union
select distinct subject_kind, subject_id, cause_us from new_verdict
union
select distinct 'job', subject_id, unnest([old_us, new_us]) from relinked where detector = $detector;
