-- A row is a team, and the words of runs that are asked for, that some run of the window has without an ownership rule; partly: others
-- have them by a rule. Call within ledger.totals.working_tables, after billing/kind.
select
    t.team,
    case when $by_user then r.user_name end as user,
    case when $by_queue then r.queue end as queue,
    case when $by_namespace then r.namespace end as namespace,
    case when $by_account then r.account end as account,
    case when $by_job then r.job_id end as job,
    w.words,
    not bool_and(coalesce(t.inferred, false)) as partly
from run_team t
join run r on r.run_id = t.run_id and r.cluster = t.cluster
left join run_word w on w.run_id = r.run_id
where r.start_us < $end_us and r.end_us > $start_us
group by all
having bool_or(t.inferred);
