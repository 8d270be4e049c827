-- A row of payer is a day, a cost, a place, and one who pays of it: weight of total, upto being the sum of the weights so
-- far. Weights are of the whole day, so that the parts of a window pay what the whole pays. Without payers there is no row.
create or replace temp table payer as
select
    day_us,
    cause,
    place,
    owner,
    weight,
    sum(weight) over (
        partition by day_us, cause, place order by owner rows between unbounded preceding and current row
    ) as upto,
    greatest(sum(weight) over (partition by day_us, cause, place), least_total) as total
from payer_weight;
