-- A row of claim_hour is an hour in which claims changed in this pass.
create or replace temp table claim_hour (hour_us bigint);
