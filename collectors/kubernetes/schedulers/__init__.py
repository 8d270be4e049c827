"""Schedulers on Kubernetes: Kueue, Volcano, coscheduling, KubeRay."""
