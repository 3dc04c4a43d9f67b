"""Kinds that hand work to a data framework: dbt, dlt, ray, dask."""

from __future__ import annotations

from noetl.net.kinds import ANYTHING, AUTH, FLAG, INTEGER, OBJECT, TEXT, TEXT_OR_TEXTS, TEXTS, Input, ToolKind, one_of

DBT_OPERATIONS = ("build", "run", "test", "seed", "snapshot", "compile")
_ENV = Input(name="env", schema=OBJECT, doc="Environment variables.")
_SANDBOX_ERRORS = ("sandbox.unavailable",)

DBT = ToolKind(
    name="dbt",
    credential_types=("dbt",),
    error_kinds=("dbt.denied", "dbt.error", "dbt.failed", "dbt.input", "dbt.missing", *_SANDBOX_ERRORS),
    doc="Runs, builds or tests a dbt project. The result has every node with its status, time and lineage.",
    inputs=(
        Input(name="project", schema=TEXT, doc="The folder of the project, in a data folder.", required=True),
        Input(
            name="op", schema=one_of(*DBT_OPERATIONS), doc="What to do; build when left out.", aliases=("operation",)
        ),
        Input(name="select", schema=TEXT_OR_TEXTS, doc="Nodes to run, as dbt selects them; all when left out."),
        Input(name="exclude", schema=TEXT_OR_TEXTS, doc="Nodes to leave out."),
        Input(name="vars", schema=OBJECT, doc="Variables of the project."),
        Input(name="target", schema=TEXT, doc="The target of the profile."),
        Input(name="full_refresh", schema=FLAG, doc="Build incremental models again from the beginning."),
        _ENV,
        AUTH,
    ),
    defaults={"timeout": 3600},
)

DLT = ToolKind(
    name="dlt",
    credential_types=("dlt",),
    error_kinds=("dlt.error", "dlt.failed", "dlt.input", "dlt.missing", *_SANDBOX_ERRORS),
    doc="Loads a resource of a dlt script, or rows, into a destination. The result has the rows of each table.",
    inputs=(
        Input(name="destination", schema=TEXT, doc="Kind of the destination, such as duckdb.", required=True),
        Input(name="dataset", schema=TEXT, doc="The dataset, or schema, to load into; noetl when left out."),
        Input(name="pipeline", schema=TEXT, doc="Name of the pipeline, whose state it continues; noetl when left out."),
        Input(name="script", schema=TEXT, doc="A Python file in a data folder."),
        Input(name="resource", schema=TEXT, doc="With script: the resource, source or function in it."),
        Input(name="args", schema=OBJECT, doc="With script: arguments of the resource, by name."),
        Input(name="data", schema={"type": "array", "items": ANYTHING}, doc="In place of script: rows to load."),
        Input(name="table", schema=TEXT, doc="The table; that of the resource when left out."),
        Input(
            name="write_disposition",
            schema=one_of("append", "replace", "merge"),
            doc="What happens to rows that exist already; the disposition of the resource when left out.",
        ),
        Input(name="key", schema={"anyOf": [TEXT, TEXTS]}, doc="With merge: the key columns."),
        _ENV,
        AUTH,
    ),
    one_of=(("script", "data"),),
    defaults={"timeout": 3600},
)

_CLUSTER_INPUTS = (
    Input(name="code", schema=TEXT, doc="The program, taken as it is written: never a template.", verbatim=True),
    Input(name="function", schema=TEXT, doc="The function in the code that is called; main when left out."),
    Input(name="args", schema=OBJECT, doc="Arguments of the function, by name."),
    Input(name="needs", schema=OBJECT, doc="What the worker of the cluster must have, such as {GPU: 1}."),
    Input(name="retries", schema=INTEGER, doc="How often the cluster itself repeats a failed task; 0 when left out."),
    AUTH,
)

DASK = ToolKind(
    name="dask",
    credential_types=("dask",),
    error_kinds=("dask.denied", "dask.error", "dask.failed", "dask.input", "dask.missing", *_SANDBOX_ERRORS),
    doc="Runs Python on an existing Dask cluster. What `main` returns, or the value of `result`, is the result.",
    inputs=_CLUSTER_INPUTS,
    defaults={"timeout": 3600},
)

RAY = ToolKind(
    name="ray",
    credential_types=("ray",),
    error_kinds=("ray.error", "ray.failed", "ray.input", "ray.missing", *_SANDBOX_ERRORS),
    doc="Runs Python on an existing Ray cluster. What `main` returns, or the value of `result`, is the result.",
    inputs=_CLUSTER_INPUTS,
    defaults={"timeout": 3600},
)

KINDS = (DBT, DLT, DASK, RAY)
