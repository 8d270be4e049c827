-- Whether nobody held the device: such spans are kept of nodes where it is not known which GPUs a job holds.
alter table idle_span add column free boolean default false;
