-- No GPU was in another cluster: see segments/elsewhere.sql.
create or replace temp table elsewhere (gpu varchar, gone boolean, from_us bigint, to_us bigint);
