/** What a new playbook begins with: small, and it runs. */
export const FIRST = `apiVersion: noetl.io/v10
kind: Playbook

metadata:
  name: first
  path: examples/first

workload:
  name: world

workflow:
  - step: start
    tool:
      kind: python
      args: { name: "{{ workload.name }}" }
      code: |
        result = {"greeting": f"Hello, {name}!"}
    next: { arcs: [{ step: end }] }

  - step: end
    tool: { kind: noop, args: { said: "{{ start.greeting }}" } }
`;
