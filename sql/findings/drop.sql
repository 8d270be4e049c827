-- The working tables of one judgement.
drop table if exists held;

drop table if exists job_chain;

drop table if exists found_row;

drop table if exists new_verdict;

drop table if exists spoken_verdict;

drop table if exists wanted_claim;

drop table if exists granted;

drop table if exists room_wait;

drop table if exists pool_place;

drop table if exists free_whole;

drop table if exists room_level;

drop table if exists starved;

drop table if exists starved_word;

drop table if exists slice_week;

drop table if exists mig_layout;

drop table if exists mig_serve;

drop table if exists mig_fit;

drop table if exists mig_size;

drop table if exists own_case;

drop table if exists spot_case;

drop table if exists device_roof;

drop table if exists old_verdict;

drop table if exists new_claim;

drop table if exists touched_subject;

drop table if exists relinked;

drop table if exists claim_hour;

drop table if exists new_unjudged;

drop table if exists run_placer;
