-- A row is a team, a share and a price: microseconds of devices that it held idle through whole hours, while a request of
-- another team waited that they would have fitted. `requests` are those requests, each counted once a team.
with idle as (
    select
        l.cluster,
        l.hour_us,
        l.device_id,
        l.share_num,
        l.share_den,
        coalesce(l.profile, '') as profile,
        l.profile as device_profile,
        coalesce(d.model, '') as model,
        coalesce(d.pool, '') as pool,
        coalesce(d.node, '') as node,
        t.team
    from ledger_hour l
    join device d using (cluster, device_id)
    join run_team t using (cluster, run_id)
    where l.hour_us >= $start_us and l.hour_us < $end_us and l.hoarded_us = $hour_us
),
-- nodes: how many devices are idle on each of them.
place as (
    select cluster, hour_us, profile, model, pool, list(devices) as nodes
    from (
        select cluster, hour_us, profile, model, pool, node, count(distinct device_id) as devices
        from idle
        group by all
    )
    group by all
),
-- A request in every hour and place that it would have fitted in.
fitting as (
    select
        p.hour_us,
        p.cluster,
        p.profile,
        p.model,
        p.pool,
        r.number,
        o.team,
        greatest(r.start_us, p.hour_us) as start_us,
        least(r.end_us, p.hour_us + $hour_us) as end_us
    from place p
    join report_request r
        on r.cluster = p.cluster
        and coalesce(r.profile, '') = p.profile
        -- So many devices on each node (Slurm), or for each pod, of which a node takes as many as fit.
        and list_sum(
            list_transform(
                p.nodes,
                lambda n: case
                    when r.scheduler = 'slurm' then least(n // ((r.device_count + r.nodes - 1) // r.nodes), 1)
                    else n // ((r.device_count + r.nodes - 1) // r.nodes)
                end
            )
        ) >= r.nodes
        and r.start_us < p.hour_us + $hour_us
        and r.end_us > p.hour_us
    join report_owner o on o.number = r.number
    where (r.gpu_type is null or exists (select 1 from report_fit f where f.gpu_type = r.gpu_type and f.model = p.model))
        and (
            r.scheduler is distinct from 'slurm'
            or r.queue is null
            or p.pool = ''
            or list_contains(string_split(r.queue, ','), p.pool)
        )
),
-- The holders of a place in an hour; requests of their own do not count.
holder as (
    select distinct hour_us, cluster, profile, model, pool, team
    from idle
),
others as (
    select h.team as holder, f.*
    from holder h
    join fitting f using (hour_us, cluster, profile, model, pool)
    where f.team is distinct from h.team
),
reached as (
    select
        *,
        max(end_us) over (
            partition by holder, hour_us, cluster, profile, model, pool
            order by start_us, end_us, number
            rows between unbounded preceding and 1 preceding
        ) as before_us
    from others
),
covered as (
    select
        holder as team,
        hour_us,
        cluster,
        profile,
        model,
        pool,
        sum(greatest(end_us - greatest(start_us, coalesce(before_us, start_us)), 0)) as waited_us
    from reached
    group by all
),
counted as (
    select holder as team, count(distinct number) as requests
    from others
    group by holder
)
select
    i.team,
    i.share_num,
    i.share_den,
    x.usd_per_gpu_hour,
    x.currency,
    sum(c.waited_us) as waited_us,
    any_value(n.requests) as requests
from idle i
join covered c using (team, hour_us, cluster, profile, model, pool)
join counted n using (team)
left join device_price x
    on x.cluster = i.cluster
    and x.device_id = i.device_id
    and x.profile is not distinct from i.device_profile
    and x.start_us <= i.hour_us
    and x.end_us > i.hour_us
where $teams is null or list_contains($teams, i.team)
group by i.team, i.share_num, i.share_den, x.usd_per_gpu_hour, x.currency
order by i.team, i.share_num, i.share_den, x.usd_per_gpu_hour, x.currency;
