-- Stores the waste of findings, as units / den GPU-microseconds.
update finding f
set wasted_units = w.units, wasted_den = w.den
from wasted_row w
where f.key = w.key;
