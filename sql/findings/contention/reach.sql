-- The time range in which requests are read.
select min(start_us) as start_us, max(end_us) as end_us
from contended_piece;
