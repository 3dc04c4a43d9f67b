// Something asked of the server and shown: loading, there, or refused. `again` asks once more, keeping what is shown.
// Answers may come in another order than they were asked for: one that is older than what is shown is dropped.

import { isAway } from "../api/client";

export class Asked<T> {
  value = $state.raw<T | null>(null);
  error = $state<Error | null>(null);
  private turn = 0; // of the last question
  private told = 0; // of the last answer

  constructor(private readonly ask: () => Promise<T>) {
    void this.again();
  }

  again = async (): Promise<void> => {
    const turn = ++this.turn;
    try {
      const value = await this.ask();
      if (this.isNews(turn)) [this.value, this.error] = [value, null];
    } catch (problem) {
      if (this.isNews(turn) && !(this.value !== null && isAway(problem))) this.error = problem as Error;
    }
  };

  private isNews(turn: number): boolean {
    const is = turn > this.told;
    if (is) this.told = turn;
    return is;
  }
}
