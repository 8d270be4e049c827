-- A row is a currency, or what has no rate, and its sums over all of booked.
select currency, lacks, sum(units)::varchar as units, sum(amount)::varchar as amount
from booked
group by all
order by all;
