"""What to do where no container of a pod runs, by what the kubelet says."""

from __future__ import annotations

IMAGE, CREATION, LOOP = "image not pulled", "container not created", "crash loop"
"""Why none runs, as `failed-work` names it."""
REMEDIES = {
    IMAGE: "Correct the image's name or its pull secret (kubectl describe pod), or delete the pod.",
    CREATION: "Correct what its container needs, such as a secret or a volume (kubectl describe pod), or delete the pod.",
    LOOP: "Look at the log of the container that failed (kubectl logs --previous), and scale it to zero until it is mended.",
}
_REASONS = {"ImagePullBackOff": IMAGE, "CrashLoopBackOff": LOOP}


def remedy_of(state: str) -> str:
    """The remedy for a pod with this state, as sql/views/pod_state.sql knows it."""
    return REMEDIES[_REASONS.get(state, CREATION)]
