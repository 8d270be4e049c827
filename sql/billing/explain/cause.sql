-- A row is a kind and a cause of what the words of a charge pay in one currency, as published: teams, or the platform. Needs named_row.
select kind, cause, sum(micros)::varchar as micros, sum(cents)::varchar as cents
from named_row
where not lacks and held = $held
group by kind, cause
order by kind, cause;
