-- A row of claim_hour is an hour of which a rule under test claims time.
create or replace temp table claim_hour as
select distinct hour_us
from new_claim;
