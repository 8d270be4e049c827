-- A sample that only one source still gives needs no readings of its own kept.
delete from sample_origin
where (device_id, context_id, observed_us) in (
    select (device_id, context_id, observed_us)
    from sample
    join gone_key using (device_id, context_id, observed_us)
    where file_id is distinct from -1
);
