-- The working tables of an export go when its file is written.
drop table if exists focus_cut;

drop table if exists focus_price;

drop table if exists focus_place;
