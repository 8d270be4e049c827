-- Removes the samples of gone_file, except those that other sources gave too: what these gave is merged again afterwards.
insert into dirty_hour
with stale as (
    select distinct c.cluster, (g.hour + shift) * 3600000000 as hour_us
    from gone_hour g
    join context c using (context_id)
    cross join (values (-1), (0), (1)) as around (shift)
)
select cluster, hour_us from stale
except
select cluster, hour_us from dirty_hour;

delete from sample_origin where file_id in (select file_id from gone_file);

delete from sample_tail where file_id in (select file_id from gone_file);

delete from sample
where file_id in (select file_id from gone_file)
    or (file_id = -1 and (device_id, context_id, observed_us) in (select (device_id, context_id, observed_us) from gone_key));
