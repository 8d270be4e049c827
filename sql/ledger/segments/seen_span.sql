-- A row of seen_span is a device of a GPU with slices and a label set within an hour.
-- An hour stores only the first and last sample. Where the GPU as a whole was sampled for a while between those of a slice, and the
-- slice has too few samples for that time too, it was not there meanwhile: the span is parted.
create or replace temp table seen_span as
with stored as (
    select s.device_id, s.first_us, s.last_us, s.hour_us, s.samples, c.gpu, c.gi, c.profile, n.last_interval_us as interval_us
    from context_span s
    join context c using (context_id)
    left join seen n on n.device_id = s.device_id
    where c.cluster = $cluster and c.gpu in (select gpu from seen where gi >= 0)
),
parted as (
    select s.*, min(w.first_us) as whole_first_us, max(w.last_us) as whole_last_us
    from stored s
    join stored w
        on w.gpu = s.gpu and w.gi < 0 and w.hour_us = s.hour_us
        and w.first_us > s.first_us + s.interval_us and w.last_us < s.last_us - s.interval_us
    where s.gi >= 0
    group by all
    having whole_last_us - whole_first_us > $layout_silence_us
        and s.samples * s.interval_us <= s.last_us - s.first_us - (whole_last_us - whole_first_us) + 2 * s.interval_us
)
select device_id, first_us, last_us, gpu, gi, profile
from stored s
where not exists (
    select 1
    from parted p
    where p.device_id = s.device_id and p.first_us = s.first_us and p.last_us = s.last_us and p.profile is not distinct from s.profile
)
union all
select device_id, first_us, whole_first_us - interval_us, gpu, gi, profile from parted
union all
select device_id, whole_last_us + interval_us, last_us, gpu, gi, profile from parted;
