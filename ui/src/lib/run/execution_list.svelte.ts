// Executions that fit a filter, newest first, kept as they change.

import { isAway } from "../api/client";
import { listExecutions } from "../api/executions";
import { subscribe } from "../api/live.svelte";
import type { ExecutionRow } from "../api/shapes";

export interface ListFilter {
  status: string;
  path: string;
  text: string;
  since: string;
  until: string;
  label: string;
  error: string;
  step: string;
}
const SOON_MS = 500;

export class ExecutionList {
  rows = $state<ExecutionRow[]>([]);
  next = $state<string | null>(null); // where older ones begin
  known = $state(false);
  error = $state<Error | null>(null);
  private filter: ListFilter | null = null;
  // Answers may come in another order than they were asked for, and later than rows that are newer: what is heard while
  // one is under way is put into it.
  private readonly underWay = new Set<Map<string, ExecutionRow>>();
  private turn = 0; // of the last question
  private told = 0; // of the last answer
  private due = 0;

  /** Show those that fit, from the newest on. */
  show(filter: ListFilter): void {
    this.filter = filter;
    void this.load();
  }

  async load(more = false): Promise<void> {
    const mine = ++this.turn;
    const heard = new Map<string, ExecutionRow>();
    this.underWay.add(heard);
    try {
      const page = await listExecutions(this.filter ?? {}, more ? this.next : null);
      if (mine < this.told) return;
      this.told = mine;
      this.rows = more ? [...this.rows, ...page.executions] : page.executions;
      this.next = page.next;
      this.error = null;
      for (const row of heard.values()) this.put(row);
    } catch (problem) {
      if (mine > this.told && !(this.known && isAway(problem))) this.error = problem as Error;
    } finally {
      this.underWay.delete(heard);
    }
    this.known = true;
  }

  /** Hear of changes for as long as somebody looks; gives how to stop. */
  follow(): () => void {
    const stop = subscribe({
      reset: () => this.loadSoon(),
      row: (row) => {
        for (const heard of this.underWay) heard.set(row.execution_id, row);
        this.put(row);
      },
    });
    return () => {
      clearTimeout(this.due);
      stop();
    };
  }

  private loadSoon(): void {
    this.due ||= window.setTimeout(() => ((this.due = 0), void this.load()), SOON_MS);
  }

  private put(row: ExecutionRow): void {
    const found = this.rows.findIndex((one) => one.execution_id === row.execution_id);
    const isFiltered = Object.values(this.filter ?? {}).some(Boolean);
    if (found < 0 && this.isNewest(row)) this.rows = [row, ...this.rows];
    else if (found < 0 && isFiltered) this.loadSoon();
    else if (found >= 0 && row.events >= this.rows[found]!.events) this.rows[found] = row;
  }

  /** Whether it belongs on top for sure. Of filters but the state the server says what fits. */
  private isNewest(row: ExecutionRow): boolean {
    const { status = "", ...others } = this.filter ?? {};
    return (
      (this.rows.length === 0 || row.created_at > this.rows[0]!.created_at) &&
      (!status || row.status === status) &&
      !Object.values(others).some(Boolean)
    );
  }
}
