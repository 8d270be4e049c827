-- The first day that a file of gone_file touches and whose raw samples are deleted: its hours cannot be computed again.
with retired_day as (
    select distinct hour_us // 86400000000 as day
    from context_span
    where hour_us // 86400000000 * 86400000000 not in (select day_us from sealed_day)
),
touched as (
    select first_us // 86400000000 as first_day, last_us // 86400000000 as last_day
    from import_file
    where file_id in (select file_id from gone_file) and first_us is not null
    union all
    select start_us // 86400000000, coalesce(end_us, evidence_us, start_us) // 86400000000
    from claim
    where file_id in (select file_id from gone_file) and start_us is not null
)
select min(day) as day
from retired_day
join touched on day between first_day and last_day;
