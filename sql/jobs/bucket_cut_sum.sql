-- A row is a run, a share unit and its buckets in the hours that the window cuts, see jobs/bucket_cut.
with held as (
    select
        s.run_id,
        s.share_num,
        s.share_den,
        s.to_us - s.from_us - coalesce(o.observed_us, 0) + coalesce(o.unobserved_us, 0) as unobserved_us,
        o.* exclude (device_id, start_us, from_us, observed_us, unobserved_us)
    from cut_segment s
    left join cut_bucket o
        on o.device_id = s.device_id and o.start_us = s.start_us and o.from_us = s.from_us
)
select
    run_id,
    share_den,
    coalesce(sum(columns('(.*)_us$')::hugeint * share_num), 0)::varchar as '\1'
from held
group by run_id, share_den
order by run_id, share_den;
