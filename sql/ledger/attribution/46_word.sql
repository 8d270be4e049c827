-- A row of run_word is a declared run and the labels its scheduler gives it: one with several records, or any if runs are inside
-- others. Without a queue in the run's records, the queue is that of the newest workload of its job.
create or replace temp table run_word as
with words as (
    select
        ('0x' || substr(md5(concat_ws(chr(31), cluster, scheduler, job_id, run_key)), 1, 15))::bigint as run_id,
        max(job_id) as job_id,
        max(user_name) as user_name,
        max(account) as account,
        max(queue) as queue,
        max(namespace) as namespace,
        max(qos) as qos,
        max(name) as name,
        max(labels) as labels,
        arg_max(state, (coalesce(evidence_us, end_us, start_us, 0), state)) as last_state,
        arg_max(state, (coalesce(evidence_us, end_us, start_us, 0), state)) filter (where end_us is not null) as end_state,
        min(submit_us) as submit_us
    from claim
    where cluster = $cluster and ($nested or rowid not in (select number from lone_claim))
    group by 1
),
queued as (
    select job_id, arg_max(queue, (coalesce(observed_us, admitted_us, submit_us, 0), queue)) as queue
    from workload
    where cluster = $cluster and queue is not null and job_id is not null
    group by job_id
)
select
    w.* exclude (job_id, end_state) replace (coalesce(w.queue, q.queue) as queue),
    coalesce(w.end_state, w.last_state) as ended_state,
    null::varchar as own
from words w
left join queued q using (job_id);
