"""Container images, run by Docker or Podman through their API, or by Kubernetes as a Job. Read first: `tool.py`,
`docker_engine.py`, `kubernetes_jobs.py`."""
