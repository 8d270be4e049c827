-- A row is a team that some run of the window belongs to by its account or namespace, without a rule.
select distinct t.team
from run_team t
join run r on r.run_id = t.run_id and r.cluster = t.cluster
where t.inferred and r.start_us < $end_us and r.end_us > $start_us
order by t.team;
