-- An inner run inherits the labels that only its outer run has, and keeps its own ones separately: its own labels decide
-- its team, then those that its outer run has itself (`outer`), then all. Run once for each level.
update run_word
set
    own = coalesce(
        run_word.own,
        json_merge_patch(
            json_object(
                'labels', run_word.labels,
                'queue', run_word.queue,
                'namespace', run_word.namespace,
                'account', run_word.account,
                'user_name', run_word.user_name
            ),
            case when o.own is null then '{}' else json_object('outer', o.own) end
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
    -- Of several outer runs the one whose devices it held for the longest time, then the longest: a job on many pods has one for each.
    select n.run_id, w.* exclude (run_id)
    from nested n
    join run_word w on w.run_id = n.outer_run_id
    left join (
        select run_id, outer_run_id, sum(end_us - start_us) as held_us
        from inner_hold
        group by run_id, outer_run_id
    ) h on h.run_id = n.run_id and h.outer_run_id = n.outer_run_id
    where n.scheduler = $scheduler
    qualify row_number() over (
        partition by n.run_id order by h.held_us desc nulls last, n.outer_end_us - n.outer_start_us desc, n.outer_run_id
    ) = 1
) o
where o.run_id = run_word.run_id;
