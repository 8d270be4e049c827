-- The id of the state (state.sqlite or a database on a server) that belongs to this store: at most one row.
create table state_link (state_id varchar not null);
