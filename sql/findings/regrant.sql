-- Stores the grants of the hours in claim_hour, and records which findings have new sums.
create or replace temp table regranted_finding as
select distinct f.key
from finding f
join (
    select distinct detector, subject_kind, subject_id, cause_us, verdict_us
    from (
        select detector, subject_kind, subject_id, cause_us, verdict_us
        from granted_claim
        where cluster = $cluster and hour_us in (select hour_us from claim_hour)
        union all
        select detector, subject_kind, subject_id, cause_us, verdict_us
        from granted
    )
) c
    on c.detector = f.detector and c.subject_kind = f.subject_kind and c.subject_id = f.subject_id
    and is_claim_of(c.cause_us, c.verdict_us, f.cause_us, f.started_us, f.last_seen_us)
where f.cluster = $cluster;

delete from granted_claim where cluster = $cluster and hour_us in (select hour_us from claim_hour);

insert into granted_claim by name select * from granted order by hour_us, device_id;
