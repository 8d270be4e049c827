-- A row of rule_set_run is a run and the number of the thresholds that hold for it, where that is not 0: by its team, and by
-- the pool in which it held most devices. named_set has the number of each team and pool that the card names; NULL is any
-- other.
create or replace temp table rule_set_run as
with place as (
    select s.run_id, d.pool, count(distinct s.device_id) as devices
    from segment s
    join device d on d.device_id = s.device_id and d.cluster = s.cluster
    where s.cluster = $cluster and s.run_id is not null
    group by s.run_id, d.pool
),
placed as (
    select run_id, arg_max(pool, (devices, pool)) as pool
    from place
    group by run_id
)
select p.run_id, n.number
from placed p
left join run_team t on t.run_id = p.run_id and t.cluster = $cluster
join named_set n
    on n.team is not distinct from case when t.team in (select team from named_set) then t.team end
    and n.pool is not distinct from case when p.pool in (select pool from named_set) then p.pool end
where n.number > 0;

-- A row of rule_set_device is a device and the number of the thresholds of its pool, for results that are not about a run.
create or replace temp table rule_set_device as
select d.device_id, n.number
from device d
join named_set n on n.team is null and n.pool = d.pool
where d.cluster = $cluster and n.number > 0;
