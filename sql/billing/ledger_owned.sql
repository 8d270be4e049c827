-- A row of book is a group of the books of one kind: microseconds of its devices in each bucket. What the row filter hides
-- is there with shown = false.
create or replace temp table book as
with owned as (
    select
        s.step,
        s.held,
        case when s.held then coalesce(s.team, t.team, '__unallocated__') else '__platform__' end as owner,
        coalesce(list_contains($teams::varchar[], owner), true) as shown,
        case when $by_team then owner end as team,
        case when $by_user then r.user_name end as user,
        case when $by_queue then r.queue end as queue,
        case when $by_namespace then r.namespace end as namespace,
        case when $by_account then r.account end as account,
        case when $by_job then r.job_id end as job,
        s.kind_id,
        s.share_num,
        s.share_den,
        s.schedulable_us,
        s.stranded_us,
        s.out_of_service_us,
        s.mig_remainder_us,
        s.unobserved_us,
        s.hoarded_us,
        s.gap_us,
        s.communication_us,
        s.stalled_us,
        s.below_roof_us,
        s.memory_roof_us,
        s.compute_us
    from piece s
    left join (select * from run where $by_run) r on r.run_id = s.run_id and r.cluster = s.cluster
    left join (select * from run_team where $by_team or $teams is not null) t
        on t.run_id = s.run_id and t.cluster = s.cluster
)
select
    step,
    held,
    shown,
    team,
    user,
    queue,
    namespace,
    account,
    job,
    kind_id,
    share_num,
    share_den,
    sum(schedulable_us) as schedulable,
    sum(stranded_us) as stranded,
    sum(out_of_service_us) as out_of_service,
    sum(mig_remainder_us) as mig_remainder,
    sum(unobserved_us) as unobserved,
    sum(hoarded_us) as hoarded,
    sum(gap_us) as gap,
    sum(communication_us) as communication,
    sum(stalled_us) as stalled,
    sum(below_roof_us) as below_roof,
    sum(memory_roof_us) as memory_roof,
    sum(compute_us) as compute
from owned
group by all;
