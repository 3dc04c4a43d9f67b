"""Random playbooks of every older spelling, from one seed each: forward steps, tools that answer by a script.

Steps of `v2-case` are of two sorts: `usual` ones follow one of the patterns that people write, with random conditions,
values, options and targets; `any` ones combine every part with every other, which people hardly do.

Every tool call carries an `id` of its own, so that runs can be compared by their calls alone, regardless of step names.
Steps only lead forward: each run ends.
"""

from __future__ import annotations

from random import Random
from typing import Any

from tests import quick_yaml

DONE, ERROR = "{{ event.name == 'call.done' }}", "{{ event.name == 'call.error' }}"
DONE_OF_HTTP = "{{ event.name == 'call.done' and response.status_code in [200, 201] }}"
ERROR_OF_HTTP = "{{ event.name == 'call.error' and response.status_code in [404, 429] }}"
OWN_NAMES = 0.3  # the share of steps that read their result by their own name
ANY_STEPS = 0.03  # the share of steps without a pattern in the usual playbooks
FORKS, RARE_FORKS = 0.2, 0.06  # the share of exits that fork
NAMES = ("start", "b", "c", "d")
CASE_GUARDS = (
    "{{ event.name == 'call.done' }}",
    "{{ event.name == 'call.done' and response.status_code in [200, 201] }}",
    "{{ event.name == 'call.done' and response.status_code == 200 }}",
    "{{ event.name == 'call.error' }}",
    "{{ event.name == 'call.error' and response.status_code in [404, 429] }}",
    "{{ event.name == 'step.exit' }}",
    "{{ event.name == 'step.exit' and vars.x == 1 }}",
    "{{ event.name in ['call.done', 'call.error'] and vars.y }}",
    "{{ result.n > 1 }}",
    True,
)
CASE_VALUES = ("{{ result.n }}", "{{ vars.x }}", "{{ workload.w }}", 5, "plain", "{{ args.x }}")
EVAL_CONDITIONS = (
    "{{ outcome.status == 'error' }}",
    "{{ outcome.error.status in [429, 503] }}",
    "{{ outcome.status == 'ok' and outcome.result.n > 2 }}",
    "{{ ctx.x == 1 }}",
    True,
)


class Playbooks:
    """Writes one random playbook."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._words = Random(f"words of {seed}")
        self._calls = 0
        self._forks = FORKS

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def pick(self, *options: Any) -> Any:
        return self.random.choice(options)

    def call_id(self) -> int:
        self._calls += 1
        return self._calls

    def document(self, dialect: str, *, usual: bool = True) -> dict[str, Any]:
        self._forks = RARE_FORKS if usual else FORKS
        case = self.usual_step if usual else self.case_step
        write = {"v2-case": case, "v2-eval": self.eval_step}[dialect]
        names = NAMES[: self.random.randint(2, len(NAMES))]
        steps = [write(name, names[number + 1 :]) for number, name in enumerate(names)]
        if dialect == "v2-case":
            steps = [self.in_other_words(step) for step in steps]
        return {
            "apiVersion": "noetl.io/v2",
            "kind": "Playbook",
            "metadata": {"name": "t", "path": "tests/t", "dialect": dialect},
            "workload": {"w": 3, "xs": [1, 2, 3]},
            "workflow": steps,
        }

    def in_other_words(self, step: dict[str, Any]) -> dict[str, Any]:
        """Some steps read their result by their own name. Drawn apart, so that a seed keeps its playbook."""
        if "tool" not in step or self._words.random() > OWN_NAMES:
            return step
        changed: dict[str, Any] = quick_yaml.loaded(
            text_of(step).replace("{{ result.n }}", f"{{{{ {step['step']}.n }}}}")
        )
        return changed

    def tool(self, values: tuple[Any, ...]) -> dict[str, Any]:
        args = {"id": self.call_id(), **self.values(values)}
        match self.pick("http", "http", "python", "postgres"):
            case "http":
                return {"kind": "http", "url": "u", "args": args}
            case "python":
                return {"kind": "python", "code": "result = 1", "args": args}
            case _:
                return {"kind": "postgres", "auth": "pg_creds", "table": "t", "args": args}

    def values(self, values: tuple[Any, ...]) -> dict[str, Any]:
        names = self.random.sample(("x", "y", "z"), self.random.randint(0, 2))
        return {name: self.pick(*values) for name in names}

    # v2-case as people write it --------------------------------------------------------------------------------

    def usual_step(self, name: str, later: tuple[str, ...]) -> dict[str, Any]:
        if self.chance(ANY_STEPS):
            return self.case_step(name, later)
        pattern = self.pick(
            self.plain_call,
            self.stored_call,
            self.routed_call,
            self.working_call,
            self.storing_call,
            self.handled_call,
            self.flagged_call,
            self.looped_call,
            self.decision,
        )
        step = {"step": name, **pattern(later)}
        if "tool" in step and self.chance(0.2):
            step["retry"] = self.case_retry()
        if "tool" in step and "case" not in step and self.chance(0.1):
            step["spec"] = {"on_error": "continue"}
        return step

    def call(self, **more: Any) -> dict[str, Any]:
        return {"tool": self.tool(("{{ vars.x }}", "{{ workload.w }}", 5, "plain")), **more}

    def plain_call(self, later: tuple[str, ...]) -> dict[str, Any]:
        return self.call(next=self.target(later))

    def stored_call(self, later: tuple[str, ...]) -> dict[str, Any]:
        """A call whose result goes into a table, into variables, or both."""
        parts = {"sink": self.sink(), "vars": self.values(CASE_VALUES[:4]) or {"x": 1}}
        kept = self.pick(("sink",), ("vars",), ("sink", "vars"))
        return self.call(**{key: parts[key] for key in kept}, next=self.target(later))

    def routed_call(self, later: tuple[str, ...]) -> dict[str, Any]:
        """Rules that set variables and lead on, after a success and after an error."""
        success = [{"when": self.pick(DONE, DONE_OF_HTTP), "then": self.way(later)}]
        failure = [{"when": self.pick(ERROR, ERROR_OF_HTTP), "then": self.way(later)}]
        more = {"next": self.target(later)} if self.chance(0.5) else {}
        return self.call(case=self.pick(success, failure, success + failure), **more)

    def way(self, later: tuple[str, ...]) -> dict[str, Any]:
        written = {"set": self.values(CASE_VALUES[:4]) or {"x": 1}} if self.chance(0.4) else {}
        return {**written, "next": self.target(later)}

    def tasks(self) -> list[dict[str, Any]]:
        return [{f"t{self.call_id()}": {"tool": self.tool(CASE_VALUES[:4])}} for _ in range(self.random.randint(1, 2))]

    def working_call(self, later: tuple[str, ...]) -> dict[str, Any]:
        """A rule that runs tasks after every success, with its own exit or that of the step."""
        last = [{"next": {"next": self.target(later)}}]
        rules: list[dict[str, Any]] = [{"when": DONE, "then": [*self.tasks(), *self.pick(last, [])]}]
        if self.chance(0.5):
            rules.append({"when": self.pick(ERROR, ERROR_OF_HTTP), "then": self.way(later)})
        return self.call(case=rules, next=self.target(later))

    def storing_call(self, later: tuple[str, ...]) -> dict[str, Any]:
        """A rule that stores, sets and leads on."""
        then = {"sink": self.sink(), **self.way(later)}
        failure = [{"when": ERROR, "then": self.way(later)}] if self.chance(0.5) else []
        return self.call(case=[{"when": self.pick(DONE, DONE_OF_HTTP), "then": then}, *failure])

    def handled_call(self, later: tuple[str, ...]) -> dict[str, Any]:
        """Tasks after an error, and then on."""
        then = [*self.tasks(), {"next": {"next": self.target(later)}}]
        return self.call(case=[{"when": self.pick(ERROR, ERROR_OF_HTTP), "then": then}], next=self.target(later))

    def flagged_call(self, later: tuple[str, ...]) -> dict[str, Any]:
        """Inclusive rules: each sets what it is about."""
        guards = self.random.sample(
            (DONE, DONE_OF_HTTP, "{{ event.name == 'call.done' and workload.w > 2 }}"), self.random.randint(1, 3)
        )
        rules = [{"when": guard, "then": {"set": self.values(CASE_VALUES[:4]) or {"x": 1}}} for guard in guards]
        return self.call(spec={"case_mode": "inclusive"}, case=rules, next=self.target(later))

    def looped_call(self, later: tuple[str, ...]) -> dict[str, Any]:
        """Each element stored, or worked on, and on from there."""
        loop = self.pick(
            {"in": "{{ workload.xs }}", "iterator": "item"},
            {"collection": [1, 2], "element": "item", "spec": {"mode": "sequential"}},
            {"in": [1, 2], "iterator": "item", "mode": "parallel", "spec": {"batch_size": 2}},
        )
        work = self.pick(
            {},
            {"sink": self.sink()},
            {"vars": self.values(("{{ workload.w }}", 5)) or {"x": 1}},
            {"case": [{"when": DONE, "then": self.tasks()}]},
            {"case": [{"when": DONE, "then": {"sink": self.sink()}}]},
        )
        return self.call(loop=loop, **work, next=self.target(later))

    def decision(self, later: tuple[str, ...]) -> dict[str, Any]:
        """No call: where to go is read from variables."""
        when = "{{ event.name == 'step.exit' and vars.x == 1 }}"
        last = self.pick({"else": {"next": self.target(later)}}, None)
        rules = [{"when": when, "then": self.way(later)}, *([last] if last else [])]
        return {"case": rules, "next": self.target(later)}

    # v2-case of any shape --------------------------------------------------------------------------------------

    def case_step(self, name: str, later: tuple[str, ...]) -> dict[str, Any]:
        step: dict[str, Any] = {"step": name}
        static = ("{{ vars.x }}", "{{ workload.w }}", 5, "plain")
        if self.chance(0.85):
            step["tool"] = self.tool(static)
            if self.chance(0.3):
                step["retry"] = self.case_retry()
            if self.chance(0.3):
                step["vars"] = self.values(CASE_VALUES[:4]) or {"x": 1}
            if self.chance(0.2):
                step["sink"] = self.sink()
        if self.chance(0.25):
            step["spec"] = self.pick({"case_mode": "inclusive"}, {"on_error": "continue"})
        if self.chance(0.2) and "tool" in step:
            step["loop"] = self.pick(
                {"in": "{{ workload.xs }}", "iterator": "item"},
                {"collection": [1, 2], "element": "item", "spec": {"mode": "sequential"}},
                {"in": [1, 2], "iterator": "item", "mode": "parallel", "spec": {"batch_size": 2}},
            )
        if self.chance(0.65):
            calls = "tool" in step
            step["case"] = [self.case_rule(later, calls=calls) for _ in range(self.random.randint(1, 3))]
            if self.chance(0.2):
                step["case"].append({"else": self.then(later)})
        if self.chance(0.7) or not {"tool", "case"} & step.keys():
            step["next"] = self.target(later)
        return step

    def sink(self) -> dict[str, Any]:
        args = {"id": self.call_id(), "n": self.pick("{{ result.n }}", 4)}
        return {"tool": {"kind": "postgres", "auth": "pg_creds", "table": "t"}, "args": args}

    def case_rule(self, later: tuple[str, ...], *, calls: bool) -> dict[str, Any]:
        guards = CASE_GUARDS if self.chance(0.3) else CASE_GUARDS[:5]  # mostly those that name the event of a call
        return {"when": self.pick(*guards) if calls else CASE_GUARDS[5], "then": self.then(later)}

    def then(self, later: tuple[str, ...]) -> Any:
        if self.chance(0.3):
            tasks: list[dict[str, Any]] = [
                {f"t{self.call_id()}": {"tool": self.tool(CASE_VALUES[:4])}} for _ in range(self.random.randint(1, 2))
            ]
            return [*tasks, *([{"next": {"next": self.target(later)}}] if self.chance(0.5) else [])]
        then: dict[str, Any] = {}
        if self.chance(0.3):
            then["sink"] = self.sink()
        if self.chance(0.4):
            then["set"] = self.values(CASE_VALUES[:4]) or {"x": 1}
        if self.chance(0.7) or not then:
            then["next"] = self.target(later)
        return then

    def case_retry(self) -> Any:
        return self.pick(
            {"max_attempts": 3, "delay": "2s", "spec": {"mode": "linear"}},
            {"max_attempts": 2, "initial_delay": 1},
            [{"when": "{{ error.status == 429 }}", "then": {"max_attempts": 3, "initial_delay": 1}}],
        )

    def target(self, later: tuple[str, ...]) -> Any:
        targets = (*later, "end")
        one = self.pick(*targets)
        if self.chance(self._forks) and len(targets) > 1:
            return [{"step": name} for name in self.random.sample(targets, 2)]
        if self.chance(0.3):
            return [{"step": one, "args": self.values(("{{ workload.w }}", 7)) or {"x": 1}}]
        return one

    # v2-eval ---------------------------------------------------------------------------------------------------

    def eval_step(self, name: str, later: tuple[str, ...]) -> dict[str, Any]:
        step: dict[str, Any] = {"step": name}
        if self.chance(0.2):
            step["when"] = self.pick("{{ workload.w > 1 }}", "{{ ctx.x != 1 }}", True)
        labels = [f"{name}{number}" for number in range(self.random.randint(1, 3))]
        static = ("{{ ctx.x }}", "{{ workload.w }}", 5, "plain", "{{ args.x }}")
        step["tool"] = [
            {label: {**self.tool(static), **self.eval_rules(labels[number + 1 :])}}
            for number, label in enumerate(labels)
        ]
        if self.chance(0.2):
            modes: list[dict[str, Any]] = [{}] if "set_vars" in str(step["tool"]) else [{}, {"mode": "parallel"}]
            step["loop"] = {"in": "{{ workload.xs }}", "iterator": "item", "spec": self.pick(*modes)}
        if self.chance(0.2):
            step["spec"] = {"next_mode": self.pick("inclusive", "exclusive")}
        step["next"] = [self.eval_arc(later) for _ in range(self.random.randint(1, 3))] if later else []
        return step

    def eval_arc(self, later: tuple[str, ...]) -> dict[str, Any]:
        arc: dict[str, Any] = {"step": self.pick(*later)}
        if self.chance(0.7):
            arc["when"] = self.pick(
                "{{ event.name == 'step.done' }}", "{{ event.name == 'step.failed' }}", "{{ ctx.x == 1 }}"
            )
        if self.chance(0.3):
            arc["args"] = {"x": self.pick("{{ workload.w }}", 7)}
        return arc

    def eval_rules(self, later: list[str]) -> dict[str, Any]:
        if self.chance(0.4):
            return {}
        rules = [
            {"expr": self.pick(*EVAL_CONDITIONS), **self.directive(later)} for _ in range(self.random.randint(1, 3))
        ]
        if self.chance(0.3):
            rules.append({"else": self.directive(later)})
        return {"eval": rules}

    def directive(self, later: list[str]) -> dict[str, Any]:
        choices: list[dict[str, Any]] = [
            {"do": "continue"},
            {"do": "fail"},
            {"do": "break"},
            {"do": "retry", "attempts": 3, "backoff": self.pick("fixed", "linear", "exponential"), "delay": 2},
            {"do": "continue", "set_ctx": {"x": self.pick(1, "{{ outcome.status }}")}},
            {"do": "continue", "set_vars": {"v": self.pick(1, "{{ workload.w }}")}},
        ]
        if later:
            choices.append({"do": "jump", "to": self.pick(*later)})
        return dict(self.pick(*choices))


def text_of(document: dict[str, Any]) -> str:
    return quick_yaml.written(document)
