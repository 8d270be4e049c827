-- A row is a finding of a cluster: all are priced anew.
create or replace temp table regranted_finding as
select key from finding where cluster = $cluster;
