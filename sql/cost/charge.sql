-- A row is a group of charges: device microseconds times share units, to be divided by share_den.
-- A dimension that was not asked for is NULL in every row. price is NULL where no rate covers the time: lacks names what.
select
    s.run_id is not null as held,
    case
        when $by_team then
            case when s.run_id is null then '__platform__' else coalesce(t.team, '__unallocated__') end
    end as team,
    case when $by_user then r.user_name end as user,
    case when $by_queue then r.queue end as queue,
    case when $by_namespace then r.namespace end as namespace,
    case when $by_account then r.account end as account,
    case when $by_job then r.job_id end as job,
    case when $by_gpu_model then d.model end as gpu_model,
    case when $by_mig_profile then s.profile end as mig_profile,
    case when $by_slice and d.gi >= 0 then d.gpu || '/GI-' || d.gi end as slice,
    case when $by_cluster then d.cluster end as cluster,
    case when $by_pool then d.pool end as pool,
    p.usd_per_gpu_hour as price,
    p.currency,
    case
        when p.usd_per_gpu_hour is null
            then concat_ws(chr(31), d.cluster, coalesce(d.pool, ''), coalesce(d.model, ''), coalesce(s.profile, ''))
    end as lacks,
    min(greatest(s.start_us, p.start_us, $start_us)) as first_us,
    s.share_den,
    sum((least(s.end_us, p.end_us, $end_us) - greatest(s.start_us, p.start_us, $start_us))::hugeint * s.share_num)::varchar
        as units
from segment s
join device d on d.device_id = s.device_id and d.cluster = s.cluster
join device_price p
    on p.device_id = s.device_id and p.profile is not distinct from s.profile and p.cluster = s.cluster
    and p.start_us < s.end_us and p.end_us > s.start_us
left join run r on r.run_id = s.run_id and r.cluster = s.cluster
left join run_team t on t.run_id = s.run_id and t.cluster = s.cluster
where s.start_us < $end_us and s.end_us > $start_us
    and p.start_us < $end_us and p.end_us > $start_us
    and ($cluster is null or s.cluster = $cluster)
    and ($team is null or (t.team = $team and s.run_id is not null))
group by all
order by all;
