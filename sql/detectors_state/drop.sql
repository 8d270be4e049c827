-- The working tables of one judgement.
drop table if exists held;

drop table if exists job_chain;

drop table if exists found_row;

drop table if exists new_verdict;

drop table if exists spoken_verdict;

drop table if exists wanted_claim;

drop table if exists granted;
