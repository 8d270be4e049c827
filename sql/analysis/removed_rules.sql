-- Ends the findings of rules that are no more, a site's whose file is gone: nobody will judge them again. What they wasted stays.
update finding
set state = 'resolved', resolved_reason = 'rule removed', ended_us = coalesce(ended_us, last_seen_us)
where state = 'open' and not list_contains($known::varchar[], detector);

delete from rule_state where not list_contains($known::varchar[], detector);
