-- A row of run_factor is a run that a policy lets pay less: factor is what it pays, in ten-thousandths. The first rule that
-- matches decides. A run is preemptible where its QOS or partition says how its runs are preempted, and not by "off".
create or replace temp table run_factor as
with preemptible as (
    select cluster, name, max(observed_us) as seen_us
    from queue
    where kind in ('qos', 'partition')
        and lower(json_extract_string(preemption, '$.mode')) not in ('', 'off', 'disabled')
        and $preemptible
    group by cluster, name
),
prioritised as (
    select cluster, job_id, arg_max(priority_class, coalesce(observed_us, admitted_us, submit_us, 0)) as priority_class
    from workload
    where priority_class is not null and job_id is not null
    group by cluster, job_id
),
word as (
    select r.run_id, r.labels, 'qos' as word, r.qos as said
    from run r
    union all
    select r.run_id, null, 'queue', r.queue
    from run r
    union all
    select r.run_id, null, 'priority', p.priority_class
    from run r
    join prioritised p on p.cluster = r.cluster and p.job_id = r.job_id
    union all
    select r.run_id, null, 'preemptible', 'true'
    from run r
    join preemptible p on p.cluster = r.cluster and (p.name = r.qos or p.name = r.queue)
),
matched as (
    select d.policy, w.run_id, d.place, d.factor
    from word w
    join policy_discount d on d.word = w.word and regexp_full_match(w.said, d.pattern)
    union all
    select d.policy, r.run_id, d.place, d.factor
    from run r
    join policy_discount d
        on d.word = 'label' and regexp_full_match(json_extract_string(r.labels, '$."' || d.key || '"'), d.pattern)
)
select policy, run_id, arg_min(factor, place) as factor
from matched
group by policy, run_id;

-- A row of cell is a UTC day of what one owner had of devices of one kind, or nobody had: their share units in each bucket
-- that is charged alike. part: 0 the whole day, 1 from midnight to the start of the window, 2 from midnight to its end.
-- place: cluster, pool and model as one number.
create or replace temp table cell (
    part integer,
    day_us bigint,
    policy integer,
    held boolean,
    owner varchar,
    user varchar,
    queue varchar,
    namespace varchar,
    account varchar,
    job varchar,
    factor integer,
    place ubigint,
    cluster varchar,
    pool varchar,
    gpu_model varchar,
    mig_profile varchar,
    slice varchar,
    currency varchar,
    lacks boolean,
    price hugeint,
    asleep_units hugeint,
    active_units hugeint,
    paid_units hugeint,
    schedulable_units hugeint,
    stranded_units hugeint,
    out_of_service_units hugeint,
    mig_remainder_units hugeint
);
