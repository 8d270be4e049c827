-- What kind of work a device does, in one expression: docs/understand/workload-classes.md. `reading` has means of a quarter of an hour or
-- more (gr, sm, tensor, dram, fp, link ratios; pcie bytes per second; gang: its run holds several devices), `roof` the
-- numbers of the device's model. NULL if a required reading is missing.
create or replace temp macro workload_class(reading, roof) as
case
    when reading.gr is null or reading.sm is null or reading.dram is null
        or coalesce(reading.tensor, reading.fp) is null
        then null
    when reading.gr < 0.02 and reading.sm < 0.01 and coalesce(reading.tensor < 0.005, true) and reading.dram < 0.01
        then 'idle'
    when reading.tensor >= roof.tensor_min and reading.sm >= roof.tensor_sm_min
        and reading.tensor / roof.tensor >= roof.tensor_over_dram_min * reading.dram / roof.dram
        then 'compute-tensor'
    when reading.fp >= roof.pipe_min and reading.sm >= roof.pipe_sm_min
        and reading.fp / roof.pipe >= greatest(reading.dram / roof.dram, coalesce(reading.tensor, 0) / roof.tensor)
        then 'compute-other'
    when reading.dram / roof.dram > coalesce(reading.tensor, 0) / roof.tensor
        and reading.dram / roof.dram >= roof.memory_min_of_roof
        then 'memory-bandwidth'
    when reading.gang and (reading.link >= roof.link_min or reading.pcie >= roof.network_bytes_per_s)
        then 'communication'
    when 1 - reading.gr >= roof.gap_min or (reading.pcie >= roof.host_bytes_per_s and reading.sm < roof.host_sm_max)
        then 'host'
    when reading.gr >= roof.small_busy_min and reading.sm < roof.small_sm_max
        then 'small-kernel'
    else 'mixed'
end;
