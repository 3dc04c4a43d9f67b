"""Patches: keys and dotted paths, without touching what others hold (SCOPE-04)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noetl.engine.pipeline.patches import apply_patch, patched


@pytest.mark.req("SCOPE-04")
@pytest.mark.parametrize(
    ("data", "patch", "gives"),
    [
        ({"a": {"c": 2}}, {"a.b": 1}, {"a": {"c": 2, "b": 1}}),
        ({"a": {"c": 2}}, {"a": {}}, {"a": {}}),
        ({"a": 1}, {"a": None}, {"a": None}),
        ({"a": 1}, {"a.b.c": 1}, {"a": {"b": {"c": 1}}}),
        ({}, {"a.b": 1, "a": 2, "a.c": 3}, {"a": {"c": 3}}),
        ({"a": {"b": 1}}, {"a.": 2}, {"a": {"b": 1, "": 2}}),
        ({}, {"a": {"x": 1}, "a.b": 2, "a.c": 3}, {"a": {"x": 1, "b": 2, "c": 3}}),
    ],
)
def test_keys_and_paths_are_written_in_order(data: Any, patch: Any, gives: Any) -> None:
    assert patched(data, patch) == gives


NAMES = st.sampled_from(["a", "b", "a.b", "a.b.c", "b.a", "a.c"])
VALUES: st.SearchStrategy[Any] = st.sampled_from([1, None]) | st.builds(lambda n: {"b": {"c": n}}, st.integers(0, 3))


@settings(deadline=None)
@given(data=st.dictionaries(NAMES.filter(lambda name: "." not in name), VALUES), patch=st.dictionaries(NAMES, VALUES))
def test_a_patch_leaves_earlier_values_unchanged(data: dict[str, Any], patch: dict[str, Any]) -> None:
    import copy

    held, before, given_ = dict(data), copy.deepcopy(data), copy.deepcopy(patch)

    apply_patch(data, patch)

    assert held == before
    assert patch == given_
    one_by_one = dict(held)
    for key, value in patch.items():
        one_by_one = patched(one_by_one, {key: value})
    assert data == one_by_one
