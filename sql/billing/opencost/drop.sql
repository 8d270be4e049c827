-- The working tables of a question go when it is answered.
drop table if exists oc_fact;

drop table if exists oc_charge;

drop table if exists oc_price;

drop table if exists oc_cut;

drop table if exists oc_owner;

drop table if exists oc_word;

drop table if exists oc_named;

drop table if exists oc_controller;

drop table if exists oc_pod;

drop table if exists oc_held;
