-- The id of this store, which its state remembers. Copies have the same.
create table store_identity as select uuid()::varchar as id;
