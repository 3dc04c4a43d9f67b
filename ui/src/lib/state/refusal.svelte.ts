// Why something was not done, as a form shows it. That the server was away is taken back once it is there again.

import { isAway } from "../api/client";
import { subscribe } from "../api/live.svelte";

export class Refusal {
  text = $state("");
  private isAway = false;

  tell(problem: unknown): void {
    this.text = (problem as Error).message;
    this.isAway = isAway(problem);
  }

  clear = (): void => {
    this.text = "";
  };

  /** For as long as the form is shown: `onMount(refusal.watch)`. */
  watch = (): (() => void) => subscribe({ reset: () => this.isAway && this.clear() });
}
