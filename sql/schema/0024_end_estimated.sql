-- Whether no source reports when the run ended: its end is the last sign of it.
alter table run add column end_estimated boolean;
