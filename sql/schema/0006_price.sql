-- What stands behind a price, and which cards it was computed from: filled when a cluster is priced again.

-- covered: the commitments to a number of GPUs that cover a class, and when (JSON); NULL where none does.
alter table class_price add column covered varchar;

-- pricing, sku, commitment_id: as the rate names them. list_price and contracted_price stand beside usd_per_gpu_hour, in
-- `currency`.
alter table class_price add column pricing varchar;

alter table class_price add column sku varchar;

alter table class_price add column list_price varchar;

alter table class_price add column contracted_price varchar;

alter table class_price add column commitment_id varchar;

-- rate: the rate in words; card and card_version: where it stands.
alter table class_price add column rate varchar;

alter table class_price add column card varchar;

alter table class_price add column card_version bigint;

-- The price before it was converted; fx_rate and fx_from_us are NULL where it was not.
alter table class_price add column base_price varchar;

alter table class_price add column base_currency varchar;

alter table class_price add column fx_rate varchar;

alter table class_price add column fx_from_us bigint;

-- The same of each device, beside its price.
alter table device_price add column sku varchar;

alter table device_price add column list_price varchar;

alter table device_price add column contracted_price varchar;

alter table device_price add column commitment_id varchar;

-- basis: versions of the other cards that prices follow from, and whom commitments cover (JSON).
alter table priced add column basis varchar;
