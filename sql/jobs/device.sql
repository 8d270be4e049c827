-- A row is a span in which one job held a device, by device and time: neighbours of one run are one span.
with held as (
    select
        s.device_id,
        a.run_id,
        s.estimated,
        s.start_us,
        s.end_us,
        s.start_us is distinct from lag(s.end_us) over (
            partition by s.device_id, a.run_id, s.estimated order by s.start_us
        ) as begins
    from asked_run a
    join segment s on s.run_id = a.run_id and s.cluster = a.cluster
),
numbered as (
    select
        *,
        count(case when begins then 1 end) over (partition by device_id, run_id, estimated order by start_us) as turn
    from held
)
select
    d.device_id,
    case when d.gi >= 0 then d.gpu || '/GI-' || d.gi else d.gpu end as id,
    d.gpu,
    case when d.gi >= 0 then d.gi end as gi,
    d.profile,
    d.node,
    d.gpu_index,
    d.model,
    n.run_id,
    n.estimated,
    min(n.start_us) as start_us,
    max(n.end_us) as end_us
from numbered n
join device d on d.device_id = n.device_id
group by d.device_id, d.gpu, d.gi, d.profile, d.node, d.gpu_index, d.model, n.estimated, n.run_id, n.turn
order by d.node, d.gpu_index, d.gpu, d.gi, start_us
limit $limit;
