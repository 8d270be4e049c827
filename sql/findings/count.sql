-- A row is a state with the number of findings of ranked_finding that are in it.
select state, count(*) as findings
from ranked_finding
group by state
order by state;
