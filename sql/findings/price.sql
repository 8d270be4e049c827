-- A row is how much of a finding's time in one bucket has one price: units / den GPU-microseconds.
select key, bucket, model, usd_per_gpu_hour, currency, units, den::varchar as den
from finding_amount
where list_contains($keys::varchar[], key)
order by key, bucket, usd_per_gpu_hour, den;
