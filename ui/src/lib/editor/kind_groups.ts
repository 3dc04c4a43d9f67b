// Kinds of tools by what people do with them, as the server groups them, and those that a search finds.

import type { Kind } from "../api/shapes";

export interface KindGroup {
  name: string;
  kinds: Kind[];
}

/** The groups in their order; with words, the kinds that have all of them in their name, group or description. A kind
 * whose name begins with what was typed comes first. */
export function kindGroups(kinds: readonly Kind[], sought: string): KindGroup[] {
  const words = sought.toLowerCase().split(/\s+/).filter(Boolean);
  const groups = new Map<string, Kind[]>();
  for (const kind of kinds) {
    const text = `${kind.name} ${kind.group} ${kind.doc}`.toLowerCase();
    if (words.every((word) => text.includes(word))) groups.set(kind.group, [...(groups.get(kind.group) ?? []), kind]);
  }
  const begins = (kind: Kind): boolean => words.length > 0 && kind.name.startsWith(words[0]!);
  return Array.from(groups, ([name, found]) => ({
    name,
    kinds: [...found.filter(begins), ...found.filter((one) => !begins(one))],
  })).sort((one, other) => Number(begins(other.kinds[0]!)) - Number(begins(one.kinds[0]!)));
}
