-- A row is a finding whose sums changed and its waste of one denominator: units / den GPU-microseconds.
select f.key, c.share_den as den, sum(c.us::hugeint * c.share_num)::varchar as units
from finding f
join regranted_finding using (key)
left join granted_claim c
    on c.detector = f.detector and c.cluster = f.cluster and c.subject_kind = f.subject_kind
    and c.subject_id = f.subject_id
    and is_claim_of(c.cause_us, c.verdict_us, f.cause_us, f.started_us, f.last_seen_us)
    and not is_withdrawn(f.resolved_reason)
where f.cluster = $cluster
group by f.key, c.share_den
order by f.key;
