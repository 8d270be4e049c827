-- A row is what the store has for doctor's checks to read: a check without it is not judged.
select
    exists(from device where measured) as measured,
    exists(from node) or exists(from claim) as scheduled,
    exists(from segment where run_id is not null and end_us > $since_us) as holds,
    exists(from device_window where hour_us >= $since_us) as held_samples,
    exists(from device_price) as prices;
