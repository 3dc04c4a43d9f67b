// Failures of a list, those that are alike in one row: a playbook that fails every hour leaves room for the others.

import type { ExecutionRow } from "../api/shapes";

export interface FailureGroup {
  newest: ExecutionRow;
  many: number; // of the list; there may be older ones
}

/** Runs of one playbook that failed in the same step with the same kind of error, in the order of their newest. */
export function failureGroups(newestFirst: readonly ExecutionRow[]): FailureGroup[] {
  const groups = new Map<string, FailureGroup>();
  for (const row of newestFirst) {
    // A run of an earlier version does not say why it failed: it is like no other.
    const why = row.status !== "failed" || row.error_kind ? row.error_kind : row.execution_id;
    const alike = JSON.stringify([row.path, row.trial, row.status, row.failed_step, why]);
    const known = groups.get(alike);
    if (known) known.many += 1;
    else groups.set(alike, { newest: row, many: 1 });
  }
  return [...groups.values()];
}
