-- Ends the findings of detectors that are not known any more: nothing will evaluate them again. Their waste stays.
update finding
set state = 'resolved', resolved_reason = 'rule removed', ended_us = coalesce(ended_us, last_seen_us)
where state = 'open' and not list_contains($known::varchar[], detector);

delete from rule_state where not list_contains($known::varchar[], detector);
