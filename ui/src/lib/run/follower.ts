// Asks the server for what is shown as it changes: one question at a time, the newest wish first, some times a second.

import { ApiError } from "../api/client";

const PACE_MS = 100; // between two questions
const RETRY_MS = 2000;
const REFUSED = new Set([404, 422]); // no such execution, no such event

/** `W` is what is wanted: another object is another wish. */
export class Follower<W, A> {
  private wanted: W | undefined;
  private answered: W | undefined;
  private isAsking = false;
  private isClosed = false;
  private wake: (() => void) | undefined;

  constructor(
    private readonly ask: (wanted: W) => Promise<A>,
    private readonly take: (answer: A, wanted: W) => void,
  ) {
    document.addEventListener("visibilitychange", this.onshow);
  }

  want(wanted: W): void {
    this.wanted = wanted;
    void this.run();
  }

  close(): void {
    this.isClosed = true;
    document.removeEventListener("visibilitychange", this.onshow);
    this.wake?.();
  }

  private onshow = (): void => void this.run();

  private async run(): Promise<void> {
    if (this.isAsking) return;
    this.isAsking = true;
    // A hidden page does not ask; it asks once it is shown.
    while (!this.isClosed && this.wanted !== this.answered && document.visibilityState === "visible") {
      const wanted = this.wanted!;
      let pause = PACE_MS;
      try {
        const answer = await this.ask(wanted);
        if (this.isClosed) return;
        this.take(answer, wanted);
        this.answered = wanted;
      } catch (problem) {
        // What the server refuses it refuses again; what it could not answer is asked again.
        if (problem instanceof ApiError && REFUSED.has(problem.status)) this.answered = wanted;
        else pause = RETRY_MS;
      }
      await new Promise<void>((resolve) => {
        const timer = setTimeout(resolve, pause);
        this.wake = () => (clearTimeout(timer), resolve());
      });
    }
    this.isAsking = false;
  }
}
