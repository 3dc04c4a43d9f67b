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
