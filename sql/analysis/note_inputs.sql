-- Notes what a finished analysis of a cluster was made from.
delete from analyzed where cluster = $cluster;

insert into analyzed values ($cluster, $inputs);
