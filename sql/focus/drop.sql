-- The working tables of an export go when its file is written.
drop table if exists focus_bill;

drop table if exists focus_run;

drop table if exists focus_row;

drop table if exists focus_active;

drop table if exists focus_cut;

drop table if exists focus_bucket;

drop table if exists focus_part;

drop table if exists focus_price;

drop table if exists focus_segment;

drop table if exists focus_place;
