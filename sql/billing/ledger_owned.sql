-- A row of ledger_group is a group of the ledger for one kind of device: microseconds in each bucket. Rows that the team filter hides
-- are kept with shown = false. claimed is the part of below_roof that findings claim.
create or replace temp table ledger_group as
with owned as (
    select
        -- The working tables may keep steps apart that are not asked for.
        case when $step_us is not null then s.step end as step,
        s.held,
        case when s.held then coalesce(s.team, t.team, '__unallocated__') else '__platform__' end as owner,
        coalesce(list_contains($teams::varchar[], owner), true) as shown,
        case when $by_team then owner end as team,
        case when $by_user then r.user_name end as user,
        case when $by_queue then r.queue end as queue,
        case when $by_namespace then r.namespace end as namespace,
        case when $by_account then r.account end as account,
        case when $by_job then r.job_id end as job,
        w.words,
        s.kind_id,
        s.share_num,
        s.share_den,
        columns('^(schedulable|stranded|out_of_service|mig_remainder|unobserved|hoarded|gap|communication|stalled|below_roof|memory_roof|compute|claimed)_us$')
    from (
        select *, 0::bigint as claimed_us
        from bucket_time
        union all by name
        select * from claimed_time
    ) s
    left join (select * from run where $by_run) r on r.run_id = s.run_id and r.cluster = s.cluster
    left join run_word w on w.run_id = s.run_id
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
    words,
    kind_id,
    share_num,
    share_den,
    sum(columns('(.*)_us$')) as '\1'
from owned
group by all;
