"""Where rows come from: SQL, HTTP pages, artifacts."""
