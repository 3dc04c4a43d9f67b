"""Pages of values: bounded for any value, and every part of it can be reached."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.base.errors import RefusedError
from noetl.operations.value_pages import TEXT_CHARS, value_page

ROWS = [{"id": n, "name": f"order {n}"} for n in range(5_000)]


def test_a_small_value_is_returned_whole() -> None:
    page = value_page({"a": [1, 2]}, "/a")

    assert (page.is_whole, page.value, page.kind, page.count) == (True, [1, 2], "array", 2)


def test_a_list_of_rows_is_paged_with_its_columns() -> None:
    page = value_page({"orders": ROWS}, "/orders", offset=4_990, limit=50)

    assert page.count == 5_000
    assert [one.value for one in page.entries] == ROWS[4_990:]
    assert page.entries[0].pointer == "/orders/4990"
    assert page.columns == ["id", "name"]


def test_a_large_part_is_described_by_size_and_first_characters() -> None:
    page = value_page({"rows": ROWS, "a/b~c": "x" * 90_000, "n": 1})

    rows, text, number = page.entries
    assert (rows.is_whole, rows.kind, rows.count) == (False, "array", 5_000)
    assert rows.value is None
    assert rows.preview.startswith('[{"id":0')
    assert (text.pointer, text.size_bytes) == ("/a~1b~0c", 90_002)
    assert (number.is_whole, number.value) == (True, 1)


def test_a_long_text_can_be_read_to_its_end() -> None:
    text = "".join(chr(97 + n % 26) for n in range(3 * TEXT_CHARS + 7)) * 2
    value, read = {"text": text}, ""
    while (page := value_page(value, "/text", offset=len(read))).text:
        read += page.text

    assert read == text


@pytest.mark.parametrize("scalar", [None, True, 7, 0.5])
def test_a_scalar_is_returned_whole_at_any_offset(scalar: object) -> None:
    page = value_page({"n": scalar}, "/n", offset=3)

    assert (page.is_whole, page.value, page.offset) == (True, scalar, 0)


@pytest.mark.parametrize("wrong", ["orders", "/orders/5000", "/orders/-1", "/nothing", "/orders/0/id/more"])
def test_an_invalid_pointer_is_refused_with_what_was_found(wrong: str) -> None:
    with pytest.raises(RefusedError, match="pointer"):
        value_page({"orders": ROWS}, wrong)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=5) | st.just("long" * 2_000),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=5),
    max_leaves=40,
)


@given(VALUES)
def test_every_part_is_reachable_by_the_pointers_of_the_pages(value: Any) -> None:
    padded = {"value": value, "padding": "x" * 100_000}

    entry = value_page(padded).entries[0]

    assert _read(padded, entry.pointer) == value


def _read(value: Any, pointer: str) -> Any:
    page = value_page(value, pointer, limit=2)
    if page.is_whole:
        return page.value
    if page.kind == "string":
        return page.text + "".join(
            value_page(value, pointer, offset=at).text for at in range(TEXT_CHARS, page.count, TEXT_CHARS)
        )
    entries = [
        one for at in range(0, page.count, 2) for one in value_page(value, pointer, offset=at, limit=2).entries
    ]  # an offset of 0 may come whole, and then this is not reached
    parts = {one.key: one.value if one.is_whole else _read(value, one.pointer) for one in entries}
    return parts if page.kind == "object" else list(parts.values())


def test_a_page_is_bounded_with_entries_of_any_size() -> None:
    page = value_page([{"text": "y" * 3_900} for _ in range(2_000)], limit=1_000)

    assert len(msgspec.json.encode(page)) < 1_000_000
    assert sum(one.is_whole for one in page.entries) < len(page.entries) == 1_000
