"""Accepted spellings of v2-case rules, as rows of the table in `noetl.language.reading.spellings.table`."""
