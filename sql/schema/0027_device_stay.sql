-- A row is a span in which a GPU that was moved was on a node, with a row for each device of it; up to the next node's first sample it counts
-- for the one that it left. Devices that were on one node only have none.
create table device_stay (cluster varchar, device_id bigint, node varchar, from_us bigint, to_us bigint);
