"""Which `spec` options each v2-case construct has (V2C-02, VAL-18)."""

from __future__ import annotations

from noetl.language.reading.nodes import Mapping
from noetl.language.reading.shared_checks import ReadContext, did_you_mean, mapping

# The table of 002 §1.1, then what every dialect's step may say (beyond.md §1).
_OWN = {
    "step": ("case_mode", "eval_mode", "timeout", "on_error"),
    "tool": ("timeout", "retry", "async", "auth_mode"),
    "loop": ("mode", "batch_size", "on_error"),
    "retry": ("mode", "jitter", "backoff_base", "on_exhausted"),
    "when": ("cache", "eval"),
    "next": ("delay", "guard", "trigger_compensation"),
}
_SHARED = {
    "step": ("pool", "lease", "join", "concurrency", "rate", "end", "result"),
    "loop": ("max_in_flight",),
}


def read_options(reading: ReadContext, owner: Mapping, construct: str) -> Mapping | None:
    """The `spec` of `owner`, each of its keys checked. Tools may know further options; the compiler warns of those."""
    spec = mapping(reading, owner.get("spec"), "E_SPEC_OPTION", f"the spec of a {construct}")
    allowed = (*_OWN.get(construct, ()), *_SHARED.get(construct, ()))
    for key, key_node, _ in spec.items() if spec is not None else ():
        if key in allowed:
            continue
        if key == "policy":
            hint = "write case and retry, or migrate to v10"
            reading.error("E_SPEC_OPTION", key_node, "v2-case has no policy", hint)
            continue
        owners = [name for name, options in _OWN.items() if key in options]
        if owners:
            reading.error("E_SPEC_OPTION", key_node, *_belongs(key, owners, construct))
        elif construct != "tool":
            hint = did_you_mean(key, allowed)
            reading.error("E_SPEC_OPTION", key_node, f'"{key}" is not an option of a {construct}', hint)
    return spec


def _belongs(key: str, owners: list[str], construct: str) -> tuple[str, str]:
    others = " or ".join(owners)
    return f"{key} is a {others} option, not one of a {construct}", f"move it to the spec of the {others}"
