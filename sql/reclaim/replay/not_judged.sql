-- Idle microseconds of whole devices within the window that no limit is tried on, and why.
select
    case when left_alone then 'left_alone' else 'unsure' end as why,
    sum(least(end_us, $until_us) - greatest(start_us, $from_us))::bigint as us
from replay_idle
where left_alone or not sure
group by all;
