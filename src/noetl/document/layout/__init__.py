"""Layout: how a document is written, comments and all, for the formatter; `noetl.document.format` is its door."""
