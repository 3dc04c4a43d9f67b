// Something asked of the server and shown: loading, there, or refused. `again` asks once more, keeping what is shown.

export class Asked<T> {
  value = $state.raw<T | null>(null);
  error = $state<Error | null>(null);

  constructor(private readonly ask: () => Promise<T>) {
    void this.again();
  }

  again = async (): Promise<void> => {
    try {
      this.value = await this.ask();
      this.error = null;
    } catch (problem) {
      this.error = problem as Error;
    }
  };
}

/** Ask again every so often while the page is looked at; gives how to stop. */
export function every(seconds: number, ask: () => Promise<void>): () => void {
  const timer = setInterval(() => document.visibilityState === "visible" && void ask(), seconds * 1000);
  return () => clearInterval(timer);
}
