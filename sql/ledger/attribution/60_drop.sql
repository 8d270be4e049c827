-- The working tables of one attribution.
drop table changed;

drop table run_word;

drop table new_segment;

drop table free_part;

drop table holder;

drop table elementary;

drop table silent;

drop table placed_inner;

drop table placed_hold;

drop table new_device;

drop table capacity_span;

drop table slice_life;

drop table slice_turn;

drop table owned_gpu;

drop table node_evidence;

drop table fleet_span;

drop table observed_hold;

drop table missing;

drop table hold;

drop table label_match;

drop table owner_span;

drop table inner_hold;

drop table inner_sign;

drop table fraction_unit;

drop table nested;

drop table doubled;

drop table wanted;

drop table outage;

drop table site;

drop table told_node;

drop table seen;

drop table node_alias;

drop table edge_spacing;

drop table edge_hour;

drop table seen_span;
