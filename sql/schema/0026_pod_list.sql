-- A row is a list of pods that a file of Kubernetes objects has: when it was written, and of which namespace and node (NULL: all).
-- A pod of theirs that was running before and is not in the list was gone by then.
create table pod_list (cluster varchar, at_us bigint, namespace varchar, node varchar, file_id bigint);
