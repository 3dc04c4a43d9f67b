"""The `http` kind: one request, guarded, streamed and bounded (TOOL-02 to TOOL-04)."""
