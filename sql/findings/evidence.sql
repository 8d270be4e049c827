-- A row is a finding of one of some rules, with what its rule needs to speak of it.
select key, detector, evidence, rule_version, last_seen_us - started_us as elapsed_us
from finding
where list_contains($detectors::varchar[], detector)
order by key;
