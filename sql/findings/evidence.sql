-- A row is a finding of the given rules, with the evidence its texts need.
select key, detector, evidence, rule_version, last_seen_us - started_us as elapsed_us
from finding
where list_contains($detectors::varchar[], detector)
order by key;
