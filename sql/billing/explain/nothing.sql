-- Without a policy there is nothing but devices' time, all of which is charged.
create or replace temp table charge_rest as
select
    0::bigint as key,
    0::bigint as day_us,
    ''::varchar as kind,
    ''::varchar as cause,
    false as external,
    ''::varchar as cluster,
    ''::varchar as pool,
    ''::varchar as gpu_model,
    false as given,
    ''::varchar as weight,
    ''::varchar as total,
    0::hugeint as pool_amount,
    0::hugeint as amount
where false;

alter table charge_line add column factor integer;
