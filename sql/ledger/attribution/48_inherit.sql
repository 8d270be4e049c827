-- An inner run inherits the labels that only its outer run has, and keeps its own ones separately: its own labels decide
-- its team, the inherited ones if they decide nothing. Run once for each level.
update run_word
set
    own = coalesce(
        run_word.own,
        json_object(
            'labels', run_word.labels,
            'queue', run_word.queue,
            'namespace', run_word.namespace,
            'account', run_word.account,
            'user_name', run_word.user_name
        )::varchar
    ),
    user_name = coalesce(run_word.user_name, o.user_name),
    account = coalesce(run_word.account, o.account),
    queue = coalesce(run_word.queue, o.queue),
    namespace = coalesce(run_word.namespace, o.namespace),
    qos = coalesce(run_word.qos, o.qos),
    labels = case
        when run_word.labels is null or o.labels is null then coalesce(run_word.labels, o.labels)
        else json_merge_patch(o.labels, run_word.labels)::varchar
    end
from (
    -- The longest of several outer runs: a job on many pods has one for each.
    select n.run_id, w.* exclude (run_id)
    from nested n
    join run_word w on w.run_id = n.outer_run_id
    where n.scheduler = $scheduler
    qualify row_number() over (
        partition by n.run_id order by n.outer_end_us - n.outer_start_us desc, n.outer_run_id
    ) = 1
) o
where o.run_id = run_word.run_id;
