-- A row is a currency, or what has no rate, and its sums over all published rows that are shown: microseconds and cents;
-- external is money that no device costs.
select currency, lacks, external, sum(micros)::varchar as micros, sum(cents)::varchar as cents
from rounded
where shown
group by all
order by all;
