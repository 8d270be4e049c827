"""Facts about GPUs and nodes as pure functions: MIG shares and packing, links, fragmentation."""
