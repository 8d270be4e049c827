-- A row is a finding made of results: those of one job's chain, or those of another subject without a long pause.
-- Numbers are combined as measure_how defines, texts are those of the last row.
with own as (
    select v.*
    from subject_result v
    join touched_subject t
        on t.subject_kind = v.subject_kind and t.subject_id = v.subject_id and t.cause_us is not distinct from v.cause_us
    where v.detector = $detector and v.cluster = $cluster
),
linked as (
    select
        *,
        case
            when cause_us is not null then false
            else coalesce(
                start_us > max(end_us) over (
                    partition by subject_kind, subject_id
                    order by start_us, end_us
                    rows between unbounded preceding and 1 preceding
                ) + $gap_us,
                true
            )
        end as begins
    from own
),
numbered as (
    select
        *,
        count(case when begins then 1 end) over (
            partition by subject_kind, subject_id, cause_us order by start_us, end_us
        ) as episode
    from linked
),
placed as (
    select
        * exclude (cause_us),
        coalesce(cause_us, min(start_us) over (partition by subject_kind, subject_id, cause_us, episode)) as cause_us
    from numbered
),
episode_row as (
    select
        *,
        end_us = max(end_us) over (partition by subject_kind, subject_id, cause_us) as is_last
    from placed
),
number_part as (
    select
        subject_kind,
        subject_id,
        cause_us,
        start_us,
        end_us,
        unnest(map_entries(numbers)) as entry
    from episode_row
),
number_joined as (
    select
        subject_kind,
        subject_id,
        cause_us,
        entry.key as name,
        case any_value(m.how)
            when 'sum' then exact_sum(entry.value)
            when 'mean' then exact_weighted_mean(entry.value, nullif(end_us - start_us, 0))
            when 'max' then max(entry.value)
            when 'min' then min(entry.value)
            when 'first' then arg_min(entry.value, (start_us, end_us, entry.value))
            else arg_max(entry.value, (end_us, start_us, entry.value))
        end as value
    from number_part
    left join measure_how m on m.name = entry.key
    where entry.value is not null and isfinite(entry.value)
    group by subject_kind, subject_id, cause_us, entry.key
),
number_summary as (
    select
        subject_kind,
        subject_id,
        cause_us,
        map_from_entries(list({'k': name, 'v': round(value, 6)} order by name)) as numbers
    from number_joined
    group by all
),
device_summary as (
    select subject_kind, subject_id, cause_us, list_sort(list(distinct device_id)) as device_ids
    from (select subject_kind, subject_id, cause_us, unnest(device_ids) as device_id from episode_row)
    group by all
),
node_summary as (
    select subject_kind, subject_id, cause_us, list_sort(list(distinct node)) as nodes
    from (select subject_kind, subject_id, cause_us, unnest(nodes) as node from episode_row)
    where node is not null
    group by all
),
found as (
    select
        subject_kind,
        subject_id,
        cause_us,
        arg_max(subject_name, (end_us, start_us, subject_name)) as subject_name,
        arg_min(run_id, (start_us, end_us, run_id)) as run_id,
        arg_max(team, (end_us, start_us, team)) as team,
        min(start_us) as started_us,
        max(end_us) as ended_us,
        coalesce(bool_or(still) filter (where is_last), false) as still,
        max(confidence) as confidence,
        arg_max(severity, (end_us, start_us, severity)) as severity,
        arg_max(words, (end_us, start_us, words::varchar)) as words,
        arg_max(rule_version, (end_us, start_us, rule_version)) as rule_version
    from episode_row
    group by subject_kind, subject_id, cause_us
)
select
    f.*,
    coalesce(n.numbers, map {}::map(varchar, double)) as numbers,
    coalesce(d.device_ids, []::bigint[]) as device_ids,
    o.nodes
from found f
left join number_summary n using (subject_kind, subject_id, cause_us)
left join device_summary d using (subject_kind, subject_id, cause_us)
left join node_summary o using (subject_kind, subject_id, cause_us)
order by f.subject_kind, f.subject_id, f.cause_us;
