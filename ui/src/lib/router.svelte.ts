// Addresses: every view has one, and it keeps the view. Works under any prefix, since it starts from the page's base.

import { version } from "./state/version.svelte";

const base = new URL(document.baseURI).pathname.replace(/\/$/, "");

function here(): { path: string; query: URLSearchParams } {
  const path = location.pathname.startsWith(base) ? location.pathname.slice(base.length) : location.pathname;
  return { path: path || "/", query: new URLSearchParams(location.search) };
}

export const route = $state(here());

function arrive(): void {
  const now = here();
  route.path = now.path;
  route.query = now.query;
}

addEventListener("popstate", arrive);

/** The address of a view, with what it shows. Empty values are left out. */
export function href(path: string, query: Record<string, string | number | undefined | null> = {}): string {
  const kept = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const search = new URLSearchParams(kept.map(([key, value]) => [key, String(value)])).toString();
  return base + path + (search ? `?${search}` : "");
}

export function go(address: string, { replace = false } = {}): void {
  const isOther = new URL(address, location.href).pathname !== location.pathname;
  if (version.isOld && isOther) {
    location.assign(address); // another screen: the server's new page shows it
    return;
  }
  history[replace ? "replaceState" : "pushState"](null, "", address);
  arrive();
}

/** Change what the present view shows, in its address. */
export function show(query: Record<string, string | number | undefined | null>, { replace = true } = {}): void {
  const all: Record<string, string | number | undefined | null> = Object.fromEntries(route.query);
  go(href(route.path, { ...all, ...query }), { replace });
}

/** Clicks on links within the page stay within the page. */
export function follow(event: MouseEvent): void {
  if (event.defaultPrevented || event.button !== 0 || event.metaKey || event.ctrlKey || event.shiftKey) return;
  const link = (event.target as Element).closest?.("a[href]") as HTMLAnchorElement | null;
  if (!link || link.target || link.hasAttribute("download") || link.origin !== location.origin) return;
  if (!link.pathname.startsWith(base) || /\/(api|docs|openapi\.json|metrics)(\/|$)/.test(link.pathname)) return;
  event.preventDefault();
  go(link.pathname + link.search);
}

/** A part of an address as it is meant; one with a "%" that begins no character stays as it is, and leads nowhere. */
function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export interface Match {
  name: string;
  params: Record<string, string>;
}

/** The first pattern that fits: `:name` is one part of a path, `*name` all that is left. */
export function match(patterns: Record<string, string>, path: string): Match | null {
  for (const [name, pattern] of Object.entries(patterns)) {
    const names: string[] = [];
    const source = pattern.replace(/[:*](\w+)/g, (mark: string, key: string) => {
      names.push(key);
      return mark.startsWith("*") ? "(.+)" : "([^/]+)";
    });
    const found = new RegExp(`^${source}/?$`).exec(path);
    if (found) {
      return {
        name,
        params: Object.fromEntries(names.map((key, at) => [key, decoded(found[at + 1] ?? "")])),
      };
    }
  }
  return null;
}
