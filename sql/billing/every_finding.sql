-- A row is a finding of a cluster; all of them are to be repriced.
create or replace temp table regranted_finding as
select key from finding where cluster = $cluster;
