-- Findings open, stay and resolve as rows. Of the chains just judged: those found anew keep when they were opened; those
-- no longer found are resolved, because the rule or the records changed.
create or replace temp table judged_finding as
select f.key
from finding f
join (select distinct job_id, chain_start_us, chain_end_us from job_chain) c
    on c.job_id = f.job_id and f.started_us >= c.chain_start_us and f.started_us <= c.chain_end_us
where f.cluster = $cluster and f.detector = $detector
union
-- Later records may name a job otherwise: what was said of a job that is no more is withdrawn.
select key
from finding
where cluster = $cluster and detector = $detector
    and job_id not in (select job_id from run where cluster = $cluster and job_id is not null);

update finding
set
    state = 'resolved',
    resolved_reason = case when rule_version <> $rule_version then 'rule_changed' else 'records changed' end,
    wasted_units = '0',
    ended_us = coalesce(ended_us, last_seen_us)
where cluster = $cluster and detector = $detector
    and key in (select key from judged_finding)
    and key not in (select key from found)
    and resolved_reason is distinct from 'rule_changed' and resolved_reason is distinct from 'records changed';

create or replace temp table kept_finding as
select n.* replace (coalesce(o.opened_us, n.opened_us) as opened_us)
from found n
left join finding o on o.key = n.key;

delete from finding where key in (select key from found);

insert into finding by name select * from kept_finding order by started_us, key;

drop table kept_finding;

drop table judged_finding;
