-- Why the scheduler placed none of a request's pods, and which nodes they may use; the taints of a node that keep pods away.
alter table pending add column message varchar;
alter table pending add column node_rule varchar;
alter table node add column taints varchar;
