-- Removes label sets without samples, and the temporary tables.
delete from context
where context_id in (select context_id from gone_hour)
    and context_id not in (select context_id from context_span)
    and context_id not in (select context_id from sample_tail)
    and context_id not in (select context_id from sample);

drop table gone_hour;

drop table gone_key;

drop table late_hour;
