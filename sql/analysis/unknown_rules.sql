-- A row is a detector that is not known any more and has open findings or a state.
select detector from finding where state = 'open' and not list_contains($known::varchar[], detector)
union
select detector from rule_state where not list_contains($known::varchar[], detector);
