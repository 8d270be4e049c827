"""gpuwatch: where the GPU-seconds and dollars of a fleet went."""
