"""Types of columns that came as text: a column has a type if every value in it is written that way.

Nothing is lost by it: "007" and "1.0.0" stay text, 12345678901234567890 and 0.10 are exact decimals. A sample
proposes a type, and the whole column confirms it; so a file is read twice, and no row after the sample is a surprise.
"""

from __future__ import annotations

from typing import Any

from noetl.tools.convert.tables import named

SAMPLE_ROWS = 10_000
_DIGITS = 38  # of a DECIMAL
_MOMENT = "[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?"
# No leading zeros: "007" is a code that somebody wrote, not the number seven.
_DECIMAL = "-?(0|[1-9][0-9]*)([.][0-9]+)?"
# In this order: what fits the first of them is that. {} is the column.
_TESTS = {
    "BOOLEAN": "lower({0}) IN ('true', 'false')",
    "BIGINT": "regexp_full_match({0}, '0|-?[1-9][0-9]{{0,18}}') AND TRY_CAST({0} AS BIGINT) IS NOT NULL",
    "DECIMAL": f"regexp_full_match({{0}}, '{_DECIMAL.replace('{', '{{').replace('}', '}}')}') AND length({{0}}) <= 40",
    "DOUBLE": "regexp_full_match({0}, '-?(0|[1-9][0-9]*)([.][0-9]+)?([eE][+-]?[0-9]{{1,3}})?') "
    "AND isfinite(TRY_CAST({0} AS DOUBLE)) "
    "AND length(regexp_replace(split_part(lower({0}), 'e', 1), '[^0-9]', '', 'g')) <= 17",  # what a DOUBLE can hold
    "DATE": "regexp_full_match({0}, '[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}') AND TRY_CAST({0} AS DATE) IS NOT NULL",
    "TIMESTAMP": f"regexp_full_match({{0}}, '{_MOMENT.replace('{', '{{').replace('}', '}}')}') "
    "AND TRY_CAST({0} AS TIMESTAMP) IS NOT NULL",
    "TIMESTAMP WITH TIME ZONE": f"regexp_full_match({{0}}, '{_MOMENT.replace('{', '{{').replace('}', '}}')}"
    "(Z|[+-][0-9]{{2}}(:[0-9]{{2}})?)') AND TRY_CAST({0} AS TIMESTAMPTZ) IS NOT NULL",
}
_MOMENTS = ("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE")


def detected_types(connection: Any, view: str, names: list[str], *, only_moments: bool) -> dict[str, str]:
    """The type of each column, VARCHAR where there is no better one."""
    if not names:
        return {}
    tried = _MOMENTS if only_moments else tuple(_TESTS)
    columns = ", ".join(map(named, names))
    connection.execute(f"CREATE TEMP TABLE sample AS SELECT {columns} FROM {view} LIMIT {SAMPLE_ROWS + 1}")  # noqa: S608
    (count,) = connection.execute("SELECT count(*) FROM sample").fetchone()
    found = _types(connection, "sample", dict.fromkeys(names, tried))
    connection.execute("DROP TABLE sample")
    if count > SAMPLE_ROWS:
        # what was empty so far may still have any type
        proposed = {name: (kind.partition("(")[0],) if kind else tried for name, kind in found.items()}
        found |= _types(connection, view, {name: kinds for name, kinds in proposed.items() if kinds != ("VARCHAR",)})
        wrong = {name: tried for name, kinds in proposed.items() if found[name] == "VARCHAR" and kinds != ("VARCHAR",)}
        found |= _types(connection, view, {name: kinds for name, kinds in wrong.items() if proposed[name] != tried})
    return {name: kind or "VARCHAR" for name, kind in found.items()}


def _types(connection: Any, view: str, tests: dict[str, tuple[str, ...]]) -> dict[str, str]:
    """For each column the first of its types that all its values fit; nothing where it has no values."""
    if not tests:
        return {}
    counts = [_counts(named(name), tried) for name, tried in tests.items()]
    row = list(connection.execute(f"SELECT {', '.join(counts)} FROM {view}").fetchone())  # noqa: S608
    made = {}
    for name, tried in tests.items():
        count, whole, scale, *fitting = row[: 3 + len(tried)]
        del row[: 3 + len(tried)]
        fits = [kind for kind, number in zip(tried, fitting, strict=True) if number == count]
        exact = next((kind for each in fits if (kind := _exact(each, whole or 1, scale or 0))), "VARCHAR")
        made[name] = exact if count else ""
    return made


def _counts(column: str, tried: tuple[str, ...]) -> str:
    fits = [f"count(*) FILTER (WHERE {_TESTS[kind].format(column)})" for kind in tried]
    if "DECIMAL" not in tried:
        return ", ".join([f"count({column})", "0", "0", *fits])
    plain = f"FILTER (WHERE {_TESTS['DECIMAL'].format(column)})"
    whole = f"max(length(ltrim(split_part({column}, '.', 1), '-'))) {plain}"
    return ", ".join([f"count({column})", whole, f"max(length(split_part({column}, '.', 2))) {plain}", *fits])


def _exact(kind: str, whole: int, scale: int) -> str | None:
    if kind != "DECIMAL":
        return kind
    return f"DECIMAL({whole + scale},{scale})" if whole + scale <= _DIGITS else None
