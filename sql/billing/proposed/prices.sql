-- Replaces classes and prices, for this connection, by those of class_rows and price_rows. Dropped by ledger/totals/drop.sql.
-- Needs changed_class and new_price. Where a cluster changes classes, none of its days counts as summed.
create temp table rolled_day as select * from rolled_day where cluster not in (select cluster from changed_class);

create temp table device_price as select * from new_price;

create temp table device_class as select * from class_rows;

create temp table class_price as select * from price_rows;
