-- A row is a team, and the words of runs that are asked for, that some run of the window has without an ownership rule; partly: others
-- have them by a rule. $summed: whole days, as views/whole_days.sql found them, are read from word_day: the runs that it merges have
-- these words in common. $jobs: only these. Call within ledger.totals.working_tables, after billing/kind.
with asked as (
    select distinct run_id
    from word_day
    where $summed and run_id is not null
        and day_us >= getvariable('rolled_from_us') and day_us < getvariable('rolled_until_us')
    union all
    select run_id
    from run
    where $summed
        and (
            $start_us < getvariable('rolled_from_us') and start_us < getvariable('rolled_from_us') and end_us > $start_us
            or getvariable('rolled_until_us') < $end_us and start_us < $end_us and end_us > getvariable('rolled_until_us')
        )
    union all
    select run_id
    from run
    where not $summed and $jobs::varchar[] is null and start_us < $end_us and end_us > $start_us
    union all
    select run_id
    from run
    where not $summed and start_us < $end_us and end_us > $start_us and job_id in (select unnest($jobs::varchar[]))
)
select
    t.team,
    case when $by_user then r.user_name end as user,
    case when $by_queue then r.queue end as queue,
    case when $by_namespace then r.namespace end as namespace,
    case when $by_account then r.account end as account,
    case when $by_job then r.job_id end as job,
    w.words,
    not bool_and(coalesce(t.inferred, false)) as partly
from asked a
join run_team t on t.run_id = a.run_id
left join (select * from run where $by_run) r on r.run_id = a.run_id
left join run_word w on w.run_id = a.run_id
group by all
having bool_or(t.inferred);
