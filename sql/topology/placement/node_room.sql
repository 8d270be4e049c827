-- A row is a span of an hour in [$from_us, $until_us) in which a node had so many CPUs and so much memory that nobody
-- had: at most, where it is not known what jobs or pods without GPUs have. What the nearest record before says that these have
-- counts until the next one, and the first record reaches back. NULL: unknown, also where jobs have more than the node has, or
-- where its scheduler does not give out memory.
with own_record as (
    select
        node,
        coalesce(observed_us, 0) as at_us,
        any_value(scheduler) as scheduler,
        max(cpu_milli) as cpu_milli,
        max(memory_bytes) as memory_bytes,
        max(case when observed_us is not null then cpu_milli_used end) as cpu_milli_used,
        max(case when observed_us is not null then memory_bytes_used end) as memory_bytes_used
    from node
    where cluster = $cluster and scheduler in ('slurm', 'kubernetes') and coalesce(cpu_milli, memory_bytes) is not null
    group by node, coalesce(observed_us, 0)
),
timed as (
    select
        *,
        case when lag(at_us) over records is null then 0 else at_us end as start_us,
        coalesce(lead(at_us) over records, 9000000000000000000) as end_us
    from own_record
    -- Of a node that is in two schedulers, neither has the whole of it.
    where node not in (select node from own_record group by node having count(distinct scheduler) > 1)
    window records as (partition by node order by at_us)
),
record as (
    select * from timed where start_us < $until_us and end_us > $from_us
),
there as (
    select scheduler, job_id, run_key, case when ended then end_us end as ended_us
    from run
    where cluster = $cluster and start_us < greatest($until_us, (select max(at_us) from record) + 1)
        and (not ended or end_us > least($from_us, (select min(at_us) from record)))
),
hold as (
    select
        c.node,
        min(c.start_us) as start_us,
        coalesce(max(c.end_us), any_value(t.ended_us), 9000000000000000000) as end_us,
        max(c.cpu_milli) as cpu_milli,
        max(c.memory_bytes) as memory_bytes
    from claim c
    join there t using (scheduler, job_id, run_key)
    where c.cluster = $cluster and c.device_count > 0 and c.node in (select node from record)
    group by c.node, scheduler, job_id, run_key, c.pod_uid
    having min(c.start_us) is not null
),
held as (
    select
        r.node,
        r.at_us,
        sum(h.cpu_milli) as cpu_milli,
        sum(h.memory_bytes) as memory_bytes
    from record r
    join hold h on h.node = r.node and h.start_us <= r.at_us and h.end_us > r.at_us
    where coalesce(r.cpu_milli_used, r.memory_bytes_used) is not null
    group by r.node, r.at_us
),
offered as (
    select
        r.node,
        r.start_us,
        r.end_us,
        r.cpu_milli - coalesce(greatest(r.cpu_milli_used - coalesce(h.cpu_milli, 0), 0), 0) as cpu_milli,
        case when r.memory_bytes_used = 0 and h.memory_bytes > 0 then null else r.memory_bytes end
        - coalesce(greatest(r.memory_bytes_used - coalesce(h.memory_bytes, 0), 0), 0) as memory_bytes
    from record r
    left join held h using (node, at_us)
),
change as (
    select
        node,
        unnest([start_us, end_us]) as at_us,
        unnest([cpu_milli, -cpu_milli]) as cpu_milli,
        unnest([memory_bytes, -memory_bytes]) as memory_bytes,
        unnest([1, -1]) * (cpu_milli is not null)::integer as cpu_known,
        unnest([1, -1]) * (memory_bytes is not null)::integer as memory_known
    from offered
    union all
    select node, unnest([start_us, end_us]), unnest([-cpu_milli, cpu_milli]), unnest([-memory_bytes, memory_bytes]), 0, 0
    from hold
    where end_us > start_us
),
level as (
    select
        node,
        at_us as start_us,
        lead(at_us) over changes as end_us,
        sum(sum(coalesce(cpu_milli, 0))) over changes as cpu_milli,
        sum(sum(coalesce(memory_bytes, 0))) over changes as memory_bytes,
        sum(sum(cpu_known)) over changes as cpu_known,
        sum(sum(memory_known)) over changes as memory_known
    from change
    group by node, at_us
    window changes as (partition by node order by at_us)
),
hourly as (
    select
        *,
        unnest(
            range(
                greatest(start_us, $from_us) // 3600000000, (least(end_us, $until_us) + 3599999999) // 3600000000
            )
        ) * 3600000000 as hour_us
    from level
    where end_us > $from_us and start_us < $until_us
)
select
    node as place,
    hour_us,
    greatest(start_us, hour_us, $from_us) as start_us,
    least(end_us, hour_us + 3600000000, $until_us) as end_us,
    case when cpu_known > 0 and cpu_milli >= 0 then cpu_milli end::bigint as cpu_milli,
    case when memory_known > 0 and memory_bytes >= 0 then memory_bytes end::bigint as memory_bytes
from hourly;
