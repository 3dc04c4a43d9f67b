"""A playbook with handlers, begun."""

from __future__ import annotations

from tests.engine_script import Conversation

TEXT = """
workflow:
  - step: start
    tool: {kind: python, code: x}
    on_event:
      spec: {interrupting: false}
      handlers:
        - event: audit.required
          then:
            - name: audit
              kind: python
              code: x
              args: {who: "{{ event.data.who }}"}
              spec: {policy: {rules: [{else: {then: {do: continue, set_ctx: {audited: "{{ outcome.result }}"}}}}]}}
        - {event: audit.required, when: "{{ event.data.who == 'bob' }}", then: [{name: warn, kind: python, code: x}]}
    next:
      arcs: [{step: end, when: "{{ event.name == 'step.interrupted' }}", args: {e: "{{ event.data }}"}}, {step: done}]
  - step: done
  - step: end
"""


def talk_of(text: str = TEXT) -> Conversation:
    talk = Conversation(text)
    talk.start()
    talk.claim("start")
    return talk
