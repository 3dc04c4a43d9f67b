// The inputs of a playbook as somebody fills them in: field by field, or all of them as JSON.

import { inputsOf } from "../api/catalog";
import type { Input, Inputs } from "../api/shapes";

import { t } from "../../texts/run";

export type Payload = Record<string, unknown>;

/** A value as it stands in a field: text as it is, all else as JSON. */
export const written = (value: unknown): string =>
  typeof value === "string" ? value : JSON.stringify(value ?? null, null, typeof value === "object" ? 2 : undefined);

export interface Given {
  last?: Record<string, string>;
  payload?: Payload;
}

export class InputForm {
  inputs = $state<Input[] | null>(null); // null while they are asked for
  secrets = $state<string[]>([]);
  missing = $state<string[]>([]); // credentials that are not stored
  values = $state<Record<string, string>>({});
  raw = $state("{}");
  mode = $state<"form" | "json">("form");
  problem = $state("");
  error = $state<Error | null>(null);
  private others: Payload = {}; // given, and none of the inputs

  /** Ask what a playbook wants, and begin with what was given: values as texts in `last`, or a whole payload. */
  load(path: string, version: string | null, given: Given = {}): Promise<void> {
    return this.fill(() => inputsOf(path, version), given);
  }

  async fill(ask: () => Promise<Inputs>, given: Given = {}): Promise<void> {
    try {
      const { inputs, secrets, missing_credentials: missing } = await ask();
      const { last = {}, payload = {} } = given;
      const names = new Set(inputs.map((one) => one.name));
      this.others = Object.fromEntries(Object.entries(payload).filter(([name]) => !names.has(name)));
      this.values = Object.fromEntries(
        inputs.map((one) => [
          one.name,
          last[one.name] ?? written(one.name in payload ? payload[one.name] : one.default),
        ]),
      );
      [this.secrets, this.missing, this.inputs, this.error] = [secrets, missing ?? [], inputs, null];
      if (this.mode === "json") this.raw = JSON.stringify(this.fields(), null, 2);
    } catch (refused) {
      // A playbook that is not in the catalogue says nothing of its inputs; what was given once can be given again.
      if (!given.payload) this.error = refused as Error;
      else if (!this.inputs) [this.inputs, this.mode, this.raw] = [[], "json", JSON.stringify(given.payload, null, 2)];
    }
  }

  /** What differs from the playbook's own values. Throws where something is no JSON. */
  payload(): Payload {
    return this.mode === "json" ? (JSON.parse(this.raw) as Payload) : this.fields();
  }

  private fields(): Payload {
    const given: Payload = { ...this.others };
    for (const one of this.inputs ?? []) {
      const text = this.values[one.name] ?? "";
      if (text === written(one.default)) continue;
      given[one.name] = one.type === "string" ? text : JSON.parse(text);
    }
    return given;
  }

  /** The payload, or nothing after saying what is wrong with it. */
  checked(): Payload | null {
    try {
      this.problem = "";
      return this.payload();
    } catch (mistake) {
      this.problem = t.anInputIsNotJson((mistake as Error).message);
      return null;
    }
  }

  turn(to: "form" | "json"): void {
    const given = this.checked();
    if (!given) return;
    if (to === "json") this.raw = JSON.stringify(given, null, 2);
    this.mode = to;
  }
}
