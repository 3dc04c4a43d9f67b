"""The tables of accepted spellings on the pages are the table that the readers use."""

from __future__ import annotations

import pytest

from noetl.language.reading.spellings.respelling import SPELLINGS
from tools.spellings_page import ROOT, spelling_pages


@pytest.mark.req("DIA-08")
@pytest.mark.parametrize("page", spelling_pages())
def test_the_spellings_table_is_current(page: str) -> None:
    assert (ROOT / page).read_text() == spelling_pages()[page], "run `make docs`"


@pytest.mark.req("DIA-08")
def test_every_accepted_spelling_is_on_both_pages() -> None:
    for page in spelling_pages().values():
        missing = [row.id for row in SPELLINGS if row.older.replace("|", "\\|") not in page]
        assert missing == []
