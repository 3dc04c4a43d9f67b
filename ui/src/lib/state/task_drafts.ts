// What somebody has typed into the form of a task and not sent. It outlives a new sign-in of the same person and nothing
// more: it is in the memory of this tab only, since a form may ask for what must not be stored.

export interface TaskDraft {
  values: Record<string, string | boolean>;
  comment: string;
}

const drafts = new Map<string, TaskDraft>();
const key = (subject: string, task: string): string => `${subject} ${task}`;

export const taskDraft = (subject: string, task: string): TaskDraft | undefined => drafts.get(key(subject, task));

export function keepTaskDraft(subject: string, task: string, draft: TaskDraft): void {
  drafts.set(key(subject, task), draft);
}

export function dropTaskDraft(subject: string, task: string): void {
  drafts.delete(key(subject, task));
}

/** Whoever signs out leaves nothing behind. */
export function dropTaskDrafts(): void {
  drafts.clear();
}
