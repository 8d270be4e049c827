-- A row of run_word is a run of the window and what is asked for of its names and labels: a JSON list in the order asked.
create or replace temp table run_word as
with asked as (
    select unnest($word_kinds::varchar[]) as kind, unnest($word_keys::varchar[]) as key, unnest(range(len($word_kinds))) as place
),
answered as (
    select
        r.run_id,
        a.place,
        case a.kind
            when 'name'
                then case when r.scheduler = 'kubernetes' then split_part(r.job_id, '/', -1) else coalesce(r.name, r.job_id) end
            when 'label'
                then json_extract_string(r.labels, '/' || replace(replace(a.key, '~', '~0'), '/', '~1'))
            else
                (
                    select first(json_extract_string(r.labels, '/' || replace(c.key, '/', '~1')) order by c.place)
                        filter (where json_extract_string(r.labels, '/' || replace(c.key, '/', '~1')) <> '')
                    from (
                        select unnest($cost_center_labels::varchar[]) as key, unnest(range(len($cost_center_labels))) as place
                    ) c
                )
        end as word
    from run r
    cross join asked a
    where r.start_us < $end_us + 86400000000 and r.end_us > $start_us - 86400000000
)
select run_id, to_json(list(word order by place))::varchar as words
from answered
group by run_id;
