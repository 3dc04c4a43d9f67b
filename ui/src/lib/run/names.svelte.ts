// Names of playbooks by their executions, for lists that know executions by their ids alone. Each is asked for once.

import { getExecution } from "../api/executions";

export class PlaybookNames {
  private readonly names = $state<Record<string, string>>({});
  private readonly asked = new Set<string>();

  /** Empty until it is known. */
  of(id: string): string {
    return this.names[id] ?? "";
  }

  async learn(ids: Iterable<string>): Promise<void> {
    for (const id of ids) {
      if (this.asked.has(id)) continue;
      this.asked.add(id);
      try {
        this.names[id] = (await getExecution(id)).name;
      } catch {
        return; // not for this person to see, or the page says already that the server is away
      }
    }
  }
}
