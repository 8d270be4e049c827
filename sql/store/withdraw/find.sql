-- A row of gone_key is a sample that a file of gone_file and another source gave.
create or replace temp table gone_key as
select distinct device_id, context_id, observed_us
from sample_origin
where file_id in (select file_id from gone_file);

-- A row of gone_hour is an hour with samples of a file of gone_file, and one of their label sets.
create or replace temp table gone_hour as
with gone_sample as (
    select context_id, observed_us from sample where file_id in (select file_id from gone_file)
    union all
    select context_id, observed_us from sample_tail where file_id in (select file_id from gone_file)
    union all
    select context_id, observed_us from gone_key
)
select distinct context_id, observed_us // 3600000000 as hour
from gone_sample;
