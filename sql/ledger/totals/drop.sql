-- Drops the working tables of a query after its result is read.
drop table if exists slice_page;

drop table if exists slice_hold;

drop table if exists layout;

drop table if exists slice_life;

drop table if exists rounded;

drop table if exists keyed;

drop table if exists booked;

drop table if exists book;

drop table if exists piece;

drop table if exists cut_span;

drop view if exists cut_bucket;

drop table if exists cut_segment;

drop table if exists cut_minute;

drop table if exists torn_hour;

drop table if exists bit;

drop table if exists torn;

drop table if exists dealt;

drop table if exists pool;

drop table if exists line;

drop table if exists payer;

drop table if exists free_place;

drop table if exists held_team;

drop table if exists cell;

drop table if exists run_factor;

drop table if exists kind;

drop table if exists priced_unit;

drop table if exists unit;

drop table if exists fine_span;

drop table if exists whole_day;
