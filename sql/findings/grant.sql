-- A row of granted is device time of a bucket that a claim gets: claims of one device, run, hour and bucket are laid end
-- to end in the order of their rules, the ledger's own rows likewise, and what lies under both is granted. No
-- microsecond is granted twice, and none that the ledger does not have.
create or replace temp table granted as
with wanted as (
    select
        *,
        coalesce(list_position($rank::varchar[], detector), 1000) as place
    from wanted_claim
),
laid as (
    select
        *,
        sum(us) over claims - us as from_us,
        sum(us) over claims as to_us
    from wanted
    window claims as (
        partition by cluster, device_id, run_id, hour_us, bucket
        order by place, detector, verdict_us, subject_kind, subject_id, cause_us
        rows between unbounded preceding and current row
    )
),
asked as (
    select distinct cluster, device_id, run_id, hour_us, bucket from wanted_claim
),
recorded as (
    select
        a.*,
        l.profile,
        l.share_num,
        l.share_den,
        case a.bucket
            when 'schedulable' then l.schedulable_us
            when 'stranded' then l.stranded_us
            when 'out_of_service' then l.out_of_service_us
            when 'mig_remainder' then l.mig_remainder_us
            when 'unobserved' then l.unobserved_us
            when 'hoarded' then l.hoarded_us
            when 'gap' then l.gap_us
            when 'communication' then l.communication_us
            when 'stalled' then l.stalled_us
            when 'below_roof' then l.below_roof_us
            when 'memory_roof' then l.memory_roof_us
            when 'compute' then l.compute_us
            else 0
        end as us
    from asked a
    join ledger_hour l
        on l.cluster = a.cluster and l.hour_us = a.hour_us and l.device_id = a.device_id
        and l.run_id is not distinct from a.run_id
),
spread as (
    select
        *,
        sum(us) over parts - us as part_from_us,
        sum(us) over parts as part_to_us
    from recorded
    window parts as (
        partition by cluster, device_id, run_id, hour_us, bucket
        order by share_num::double / share_den, share_den, profile, us
        rows between unbounded preceding and current row
    )
)
select
    c.detector,
    c.cluster,
    c.subject_kind,
    c.subject_id,
    c.cause_us,
    c.verdict_us,
    c.device_id,
    c.run_id,
    c.hour_us,
    c.bucket,
    s.profile,
    s.share_num,
    s.share_den,
    (least(c.to_us, s.part_to_us) - greatest(c.from_us, s.part_from_us))::bigint as us
from laid c
join spread s
    on s.cluster = c.cluster and s.device_id = c.device_id and s.run_id is not distinct from c.run_id
    and s.hour_us = c.hour_us and s.bucket = c.bucket
    and s.part_from_us < c.to_us and s.part_to_us > c.from_us;
