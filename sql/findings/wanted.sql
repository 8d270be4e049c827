-- A row of wanted_claim is device time that a rule claims in the hours of claim_hour.
create or replace temp table wanted_claim as
select *
from verdict_claim
where cluster = $cluster and hour_us in (select hour_us from claim_hour);
