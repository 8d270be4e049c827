-- The kind of an accelerator of another vendor (core/accelerators.py), NULL for NVIDIA GPUs: no source measures those.
alter table device add column kind varchar;
