-- From when to when requests are asked for.
select min(start_us) as start_us, max(end_us) as end_us
from contended_piece;
