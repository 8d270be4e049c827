-- A row is a node and an hour in which its scheduler kept it out of service: drained, cordoned or down. It claims the time of its GPUs
-- that nobody held. Nodes that sleep to save power, reboot, or are not there yet are so on purpose.
with record as (
    select
        node,
        state,
        state <> 'up' as out,
        reason,
        coalesce(case when state <> 'up' then since_us end, observed_us, since_us) as from_us
    from node
    where cluster = $cluster and node is not null and state is not null
        and not coalesce(regexp_matches(json_extract_string(labels, '$.states'), 'POWER|FUTURE|REBOOT'), false)
),
outage as (
    select
        r.node,
        r.state,
        r.reason,
        r.from_us,
        coalesce(
            (select min(u.from_us) from record u where u.node = r.node and not u.out and u.from_us > r.from_us),
            9223372036854775807
        ) as to_us
    from record r
    where r.out and r.from_us is not null and r.from_us < $until_us
),
lost as (
    select
        d.node,
        l.hour_us,
        l.device_id,
        sum(l.out_of_service_us)::bigint as us,
        sum(l.out_of_service_us::double * l.share_num / l.share_den) / 3600e6 as gpu_hours
    from device d
    join ledger_hour l on l.device_id = d.device_id and l.cluster = d.cluster
    where d.cluster = $cluster and d.node in (select node from outage)
        and l.hour_us >= $since_us and l.hour_us < $until_us and l.out_of_service_us > 0
    group by d.node, l.hour_us, l.device_id
),
node_hour as (
    select
        node,
        hour_us,
        list(device_id order by device_id) as device_ids,
        count(*) as gpus,
        exact_sum(gpu_hours) as gpu_hours,
        max(us) / 3600e6 as hours,
        list({
            'device_id': device_id,
            'run_id': null::bigint,
            'hour_us': hour_us,
            'bucket': 'out_of_service',
            'us': us
        } order by device_id) as claims
    from lost
    group by node, hour_us
),
-- Of the records that overlap an hour the earliest says since when it is out, the latest why.
timed as (
    select
        h.node,
        h.hour_us,
        any_value(h.device_ids) as device_ids,
        any_value(h.gpus) as gpus,
        any_value(h.gpu_hours) as gpu_hours,
        any_value(h.hours) as hours,
        any_value(h.claims) as claims,
        greatest(min(o.from_us), h.hour_us) as start_us,
        least(max(o.to_us), h.hour_us + 3600000000, $known_until_us) as end_us,
        arg_max(o.state, (o.from_us, o.state)) as state,
        arg_max(o.reason, (o.from_us, o.reason)) filter (where o.reason is not null) as reason
    from node_hour h
    join outage o on o.node = h.node and o.from_us < h.hour_us + 3600000000 and o.to_us > h.hour_us
    group by h.node, h.hour_us
)
select
    'node' as subject_kind,
    node as subject_id,
    node as subject_name,
    start_us,
    end_us,
    1.0 as confidence,
    device_ids,
    [node] as nodes,
    map {'gpus': gpus::double, 'gpu_hours': gpu_hours, 'hours': hours} as numbers,
    map {'state': state, 'reason': reason} as words,
    claims
from timed
where end_us > start_us
order by hour_us, node;
