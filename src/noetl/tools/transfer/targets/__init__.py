"""Where rows go: SQL tables, HTTP endpoints, artifacts."""
