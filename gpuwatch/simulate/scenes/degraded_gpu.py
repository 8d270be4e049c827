"""GPUs that are broken and still given out, and errors that are the application's."""

from __future__ import annotations

from gpuwatch.simulate.models import A100
from gpuwatch.simulate.patches import GONE
from gpuwatch.simulate.scene import scene
from gpuwatch.simulate.staging import Stage

DETECTOR = "degraded-gpu"
WIDTH_NOW = 8


@scene(DETECTOR, "hardware-errors", rank=1, gpus=8, hours=8)
def hardware_errors(s: Stage) -> None:
    """A node with four broken boards: row remap pending, remap failed, NVLink fatal, fallen off the bus."""
    node = s.node(counters="health", leaf=s.tag)
    pending, failed, linked, lost, narrow = node.devices[:5]
    jobs = {d.index: s.job((d,), s.ago(7.5), s.ago(0.3), "train-lean") for d in (pending, failed, linked, narrow)}
    s.patch(pending, "xid", s.ago(5), None, first=48, last=48)
    s.patch(pending, "ecc_dbe", s.ago(5), None, first=1, last=1)
    s.patch(pending, "remap_pending", s.ago(5), None, first=1, last=1)
    s.patch(failed, "remap_failed", s.ago(4.4), None, first=1, last=1)
    s.patch(failed, "remapped_bad", s.ago(4.4), s.ago(4.3), scale=1, first=0, last=7)
    s.patch(linked, "xid", s.ago(4.1), None, first=74, last=74)
    s.patch(linked, "nvlink_recoveries", s.ago(4.1), s.ago(0.3), scale=1, first=0, last=40)
    s.patch(narrow, "pcie_lanes", s.ago(8), None, first=WIDTH_NOW, last=WIDTH_NOW)
    s.job((lost,), s.ago(7.4), s.ago(3.4), "train-lean", state="NODE_FAIL")
    s.patch(lost, "xid", s.ago(3.55), None, first=79, last=79)
    s.patch(lost, GONE, s.ago(3.4), None)
    cases = (
        ("row-remap-pending", pending, 5.0, "XID 48, a double-bit error, a reset is pending; its job goes on"),
        ("row-remap-failed", failed, 4.4, "no spare rows left: the board must be replaced"),
        ("nvlink-fatal", linked, 4.1, "XID 74, and its links recover again and again"),
        ("off-the-bus", lost, 3.55, "XID 79, then silence"),
        ("narrow-link", narrow, 7.5, "eight of sixteen PCIe lanes under load"),
    )
    for shape, device, hours, why in cases:
        s.plant(shape, why, ("gpu", device.gpu), devices=(device,), since_s=s.ago(hours))
    assert jobs


@scene(DETECTOR, "application-errors", rank=2, gpus=4, hours=8)
def application_errors(s: Stage) -> None:
    """XIDs of applications, rows that were remapped as they should be, and links that rest while nothing runs."""
    node = s.node(A100, gpus=4, counters="health", leaf=s.tag)
    fault, reset, rows, rests = node.devices
    s.job((fault,), s.ago(7.5), s.ago(4), "train-lean", state="FAILED")
    s.patch(fault, "xid", s.ago(4.02), None, first=31, last=31)
    s.job((reset,), s.ago(7.4), s.ago(0.4), "batch")
    s.patch(reset, "xid", s.ago(3), None, first=43, last=43)
    s.job((rows,), s.ago(7.3), s.ago(0.5), "train-lean")
    s.patch(rows, "remapped_ok", s.ago(5), s.ago(4.9), scale=1, first=0, last=2)
    s.patch(rests, "pcie_gen", s.ago(8), None, first=1, last=1)
    cases = (
        ("application-fault", fault, "XID 31: an illegal address of the application"),
        ("application-stopped", reset, "XID 43: the application was stopped"),
        ("remapped-correctable", rows, "two rows remapped for correctable errors, nothing pending"),
        ("link-rests", rests, "PCIe generation 1 on a GPU that nobody uses: it saves power"),
    )
    for shape, device, why in cases:
        s.decoy(shape, why, ("gpu", device.gpu), devices=(device,))


@scene(DETECTOR, "replaced", rank=3, gpus=8, hours=10)
def replaced(s: Stage) -> None:
    """A GPU falls off the bus, and half an hour later another is in its slot; the job on all eight goes on."""
    node = s.node(A100, counters="health", leaf=s.tag)
    gone, new = s.swap(node.devices[3], s.ago(5), s.ago(4.5))
    s.patch(gone, "xid", s.ago(5.2), s.ago(5), first=79, last=79)
    devices = (*node.devices[:3], gone, *node.devices[4:], new)
    job = s.job(devices, s.ago(9.5), None, "train-lean", gpus=len(node.devices))
    s.plant("off-the-bus-and-replaced", "XID 79, then another GPU in its slot", ("gpu", gone.gpu), devices=(gone,),
            since_s=s.ago(5.2), until_s=s.ago(4.5))  # fmt: skip
    s.decoy("its-successor", "the new GPU is healthy", ("gpu", new.gpu), devices=(new,))
    s.decoy("replaced", "the silent GPU is no longer in its slot", job, detector="blind-spot")
    s.decoy("replaced", "all GPUs that it had worked", job, detector="idle-hoarding")
