-- A row of slice_used is a held slice of the page: microseconds it was hoarded, and means of its readings weighted by the time that they
-- cover. Ratios are of the slice itself: 1.0 means that all of its own SMs work.
create or replace temp table slice_used as
with held as (
    select
        p.key,
        p.cluster,
        p.device_id,
        p.run_id,
        p.profile,
        p.share_num,
        p.share_den,
        y.start_us,
        y.end_us,
        p.start_us as from_us,
        p.end_us as to_us
    from slice_page p
    join device d on d.device_id = p.device_id and d.cluster = p.cluster
    join layout y on y.cluster = p.cluster and y.parent_id = d.parent_id and y.start_us = p.layout_us
    where p.run_id is not null
),
span as (
    select
        h.key,
        s.device_id,
        s.start_us as segment_us,
        greatest(s.start_us, h.from_us) as from_us,
        least(s.end_us, h.to_us) as to_us
    from held h
    join segment s
        on s.cluster = h.cluster and s.device_id = h.device_id and s.run_id = h.run_id
        and s.profile is not distinct from h.profile
        and s.share_num = h.share_num and s.share_den = h.share_den
        and s.start_us < h.to_us and s.end_us > h.from_us
),
whole_hour as (
    select h.key, sum(l.hoarded_us) as hoarded_us
    from held h
    join ledger_hour l
        on l.cluster = h.cluster and l.device_id = h.device_id and l.run_id = h.run_id
        and l.profile is not distinct from h.profile
        and l.share_num = h.share_num and l.share_den = h.share_den
        and l.hour_us >= h.start_us and l.hour_us + 3600000000 <= h.end_us
    group by h.key
),
-- An hour that the window or a new layout cuts is read from its minutes; a minute that is itself cut counts in proportion.
cut_hour as (
    select distinct edge_us // 3600000000 * 3600000000 as hour_us
    from (select unnest([start_us, end_us]) as edge_us from held) e
    where edge_us % 3600000000 <> 0
),
cut_minute as (
    select
        s.key,
        sum(
            m.hoarded_us::hugeint * (least(m.end_us, s.to_us) - greatest(m.start_us, s.from_us))
            // (m.end_us - m.start_us)
        ) as hoarded_us
    from span s
    join device_minute m on m.device_id = s.device_id and m.start_us < s.to_us and m.end_us > s.from_us
    join held h on h.key = s.key
    where m.hour_us in (select hour_us from cut_hour)
        and not (m.hour_us >= h.start_us and m.hour_us + 3600000000 <= h.end_us)
    group by s.key
),
reading as (
    select
        s.key,
        sum(w.gr_engine_ratio * w.covered_us) / sum(w.covered_us) filter (where w.gr_engine_ratio is not null)
            as gr_engine_ratio,
        sum(w.sm_active_ratio * w.covered_us) / sum(w.covered_us) filter (where w.sm_active_ratio is not null)
            as sm_active_ratio,
        sum(w.tensor_active_ratio * w.covered_us)
            / sum(w.covered_us) filter (where w.tensor_active_ratio is not null) as tensor_active_ratio,
        sum(w.dram_active_ratio * w.covered_us)
            / sum(w.covered_us) filter (where w.dram_active_ratio is not null) as dram_active_ratio,
        sum(w.fb_used_bytes::double * w.covered_us)
            / sum(w.covered_us) filter (where w.fb_used_bytes is not null) as fb_used_bytes
    from span s
    join device_window w
        on w.device_id = s.device_id and w.segment_start_us = s.segment_us
        and w.start_us < s.to_us and w.start_us + 300000000 > s.from_us
    where w.covered_us > 0
    group by s.key
)
select
    h.key,
    coalesce(o.hoarded_us, 0) + coalesce(c.hoarded_us, 0) as hoarded_us,
    r.gr_engine_ratio,
    r.sm_active_ratio,
    r.tensor_active_ratio,
    r.dram_active_ratio,
    r.fb_used_bytes
from held h
left join whole_hour o using (key)
left join cut_minute c using (key)
left join reading r using (key);
