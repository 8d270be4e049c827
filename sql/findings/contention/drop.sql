-- Drops the temporary tables of this folder.
drop table if exists contended_piece;

drop table if exists contended_asker;

drop table if exists contended_place;

drop table if exists contended_holder;

drop table if exists contended_request;

drop table if exists contended_change;

drop table if exists contended_span;

drop table if exists contended_turn;

drop table if exists contended_demand;

drop table if exists contended_fit;

drop table if exists report_request;
