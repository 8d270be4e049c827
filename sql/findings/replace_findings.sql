-- Findings open, stay and resolve as rows: `found` has those of the touched subjects. Their earlier findings that are
-- no longer found are resolved, because the rule or the records changed; a known finding keeps its opening time.
update finding
set
    state = 'resolved',
    resolved_reason = case when rule_version <> $rule_version then 'rule_changed' else 'records changed' end,
    wasted_units = '0',
    ended_us = coalesce(ended_us, last_seen_us)
where cluster = $cluster and detector = $detector
    and key not in (select key from found)
    and (
        (subject_kind, subject_id, cause_us) in (select (subject_kind, subject_id, cause_us) from touched_subject)
        or (subject_kind, subject_id) in (
            select (subject_kind, subject_id) from touched_subject where cause_us is null
        )
        or ($mode = 'all')
        or (
            $mode = 'runs'
            and (
                (subject_id, cause_us) in (select (job_id, chain_start_us) from job_chain)
                or subject_kind <> 'job'
                -- Later records may rename a job, or move a run of it (another time zone): the finding of a job or run that
                -- no longer exists is withdrawn.
                or subject_id in (select job_id from lost_subject where job_id is not null)
                or run_id in (select run_id from lost_subject where run_id is not null)
                or exists (
                    select 1
                    from job_chain c
                    where c.job_id = subject_id and started_us >= c.chain_start_us and started_us <= c.chain_end_us
                )
            )
        )
    )
    and resolved_reason is distinct from 'rule_changed' and resolved_reason is distinct from 'records changed';

-- Time has passed without a new result.
update finding
set state = 'resolved', resolved_reason = 'condition ended', ended_us = last_seen_us
where cluster = $cluster and detector = $detector and state = 'open' and key not in (select key from found)
    and (
        ($mode = 'hours' and last_seen_us <= $since_us)
        -- A finding about a run that ended may stay open for a week.
        or ($mode = 'runs' and last_seen_us <= $until_us - 7 * 86400000000)
    );

create or replace temp table kept_finding as
select
    n.* replace (
        coalesce(o.opened_us, n.opened_us) as opened_us,
        coalesce(o.wasted_units, n.wasted_units) as wasted_units,
        coalesce(o.wasted_den, n.wasted_den) as wasted_den
    )
from found n
left join finding o on o.key = n.key;

delete from finding where key in (select key from found);

insert into finding by name select * from kept_finding order by started_us, key;
