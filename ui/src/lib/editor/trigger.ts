// The trigger of a playbook's text: written, replaced or taken out, all other lines as they are.

export interface Trigger {
  cron: string;
  timezone: string;
  missed: string;
  overlap: string;
  jitter_s?: number;
}

const BEGIN = /^trigger\s*:/;

/** The text with this trigger; without any for null. It stands before `workflow`, where there was none. */
export function withTrigger(text: string, trigger: Trigger | null): string {
  const lines = text.split("\n");
  const from = lines.findIndex((line) => BEGIN.test(line));
  let to = from + 1;
  // A block ends where the next key stands at the beginning of a line; comments there belong to that key.
  if (from >= 0) while (to < lines.length && !/^\S/.test(lines[to]!)) to += 1;
  while (from >= 0 && to > from + 1 && !lines[to - 1]!.trim()) to -= 1;
  const fresh = trigger ? [written(trigger)] : [];
  if (from >= 0) lines.splice(from, to - from, ...fresh);
  else {
    const at = lines.findIndex((line) => /^workflow\s*:/.test(line));
    lines.splice(at < 0 ? lines.length : at, 0, ...fresh);
  }
  return lines.join("\n");
}

function written({ cron, timezone, missed, overlap, jitter_s }: Trigger): string {
  const jitter = jitter_s ? `, jitter: ${jitter_s}s` : "";
  const spec = `timezone: ${JSON.stringify(timezone)}, missed: ${missed}, overlap: ${overlap}${jitter}`;
  return `trigger: { timer: { cron: ${JSON.stringify(cron)}, spec: { ${spec} } } }`;
}
