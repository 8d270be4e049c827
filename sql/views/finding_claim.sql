-- Which claims belong to a finding. A claim about a run belongs to the finding of that run, any other claim to the finding whose time
-- has the claim's result.
create or replace temp macro is_claim_of(cause_us, result_us, finding_cause_us, started_us, last_seen_us) as
    cause_us = finding_cause_us or (cause_us is null and result_us >= started_us and result_us <= last_seen_us);

-- A withdrawn finding never was one, by later thresholds or records: it claims nothing.
create or replace temp macro is_withdrawn(resolved_reason) as
    coalesce(resolved_reason in ('rule_changed', 'records changed'), false);
