# Builds the wheel, installs it with the pinned libraries into an environment of its own, and ships only that.
# The base image is named by digest, so that each build starts from the same bytes. docs/operate/deploy.md says how to move it.
# With the engine of a lake (docs/operate/lake.md): --build-arg LOCK=requirements-lake.lock
ARG PYTHON_IMAGE=python:3.13-slim-bookworm@sha256:01f42367a0a94ad4bc17111776fd66e3500c1d87c15bbd6055b7371d39c124fb
FROM ${PYTHON_IMAGE} AS build
ARG LOCK=requirements-image.lock
WORKDIR /src
COPY pyproject.toml setup.py README.md LICENSE requirements-image.lock requirements-lake.lock requirements-ray.lock ./
COPY gpuwatch gpuwatch
COPY collectors collectors
COPY dashboards dashboards
COPY sql sql
RUN python -m venv /opt/gpuwatch \
    && /opt/gpuwatch/bin/pip install --no-cache-dir --require-hashes --requirement ${LOCK} \
    && /opt/gpuwatch/bin/pip install --no-cache-dir --no-deps --no-build-isolation .

FROM ${PYTHON_IMAGE}
LABEL org.opencontainers.image.title="gpuwatch" \
      org.opencontainers.image.description="Where the GPU-seconds and dollars of a fleet went" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --gid 10001 gpuwatch \
    && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin gpuwatch \
    && install --directory --owner=10001 --group=10001 --mode=0700 /data
COPY --from=build /opt/gpuwatch /opt/gpuwatch
ENV PATH=/opt/gpuwatch/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    GPUWATCH_DATA=/data
USER 10001:10001
# Not the source folder: beside it Python would take its half of the package instead of the installed one.
WORKDIR /data
VOLUME ["/data"]
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8765/healthz', timeout=4)"]
ENTRYPOINT ["gpuwatch"]
CMD ["serve", "--host", "0.0.0.0"]
