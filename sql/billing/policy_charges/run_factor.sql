-- A row of run_factor is a run that a policy lets pay less: factor is what it pays, in ten-thousandths. The first rule that
-- matches decides. A run is preemptible where its QOS or partition sets a preemption mode other than "off".
insert into run_factor by name
with preemptible as (
    select cluster, name, max(observed_us) as seen_us
    from queue
    where kind in ('qos', 'partition')
        and lower(json_extract_string(preemption, '$.mode')) not in ('', 'off', 'disabled')
        and $preemptible
    group by cluster, name
),
prioritised as (
    select cluster, job_id, arg_max(priority_class, (coalesce(observed_us, admitted_us, submit_us, 0), priority_class)) as priority_class
    from workload
    where priority_class is not null and job_id is not null
    group by cluster, job_id
),
rule as (
    select policy, place, case when word = 'label' then 'label:' || key else word end as word, pattern, factor
    from policy_discount
),
word as (
    select run_id, 'qos' as word, qos as value
    from run
    where qos is not null and 'qos' in (select word from policy_discount)
    union all
    select run_id, 'queue', queue
    from run
    where queue is not null and 'queue' in (select word from policy_discount)
    union all
    select r.run_id, 'priority', p.priority_class
    from run r
    join prioritised p on p.cluster = r.cluster and p.job_id = r.job_id
    where 'priority' in (select word from policy_discount)
    union all
    select r.run_id, 'preemptible', 'true'
    from run r
    join preemptible p on p.cluster = r.cluster and p.name = r.qos
    union all
    select r.run_id, 'preemptible', 'true'
    from run r
    join preemptible p on p.cluster = r.cluster and p.name = r.queue
    union all
    select r.run_id, 'label:' || d.key, json_extract_string(r.labels, '$."' || d.key || '"')
    from run r
    join (select distinct key from policy_discount where word = 'label') d on r.labels is not null
),
-- Many runs share few values: each value is matched once.
matched as (
    select d.policy, w.word, w.value, min(struct_pack(place := d.place, factor := d.factor)) as first
    from (select distinct word, value from word) w
    join rule d on d.word = w.word and regexp_full_match(w.value, d.pattern)
    group by all
)
select m.policy, w.run_id, min(m.first).factor as factor
from word w
join matched m using (word, value)
group by m.policy, w.run_id;
