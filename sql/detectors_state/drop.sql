-- The working tables of one judgement.
drop table held;

drop table job_chain;
