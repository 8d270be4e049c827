-- Devices whose samples name an owner that no scheduler record knows are held by that owner.
insert into hold
select run_id, device_id, null, start_us, end_us, false, false from observed_hold;
