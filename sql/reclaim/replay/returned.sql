-- A row is an amount of GPU time that a limit would have returned, at one price: units / den microseconds of a GPU.
select limit_us, team, usd_per_gpu_hour, currency, den, sum(units)::varchar as units
from replay_priced
group by all
order by all;
