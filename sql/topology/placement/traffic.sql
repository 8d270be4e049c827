-- A row is the average measured link traffic of some devices in a span.
select
    sum(w.covered_us) filter (where w.pcie_bytes_per_s is not null)::bigint as pcie_us,
    sum(w.pcie_bytes_per_s * w.covered_us) / sum(w.covered_us) filter (where w.pcie_bytes_per_s is not null) as pcie_bytes_per_s,
    sum(w.covered_us) filter (where w.link_ratio is not null)::bigint as link_us,
    sum(w.link_ratio * w.covered_us) / sum(w.covered_us) filter (where w.link_ratio is not null) as link_ratio
from device_window w
where w.cluster = $cluster
    and w.hour_us >= $from_us // 3600000000 * 3600000000
    and w.hour_us < $until_us
    and w.start_us >= $from_us
    and w.start_us < $until_us
    and list_contains($devices, w.device_id);
