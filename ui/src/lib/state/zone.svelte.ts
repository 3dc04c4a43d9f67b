// The time zone in which moments are shown: the browser's own, or another. Kept in this browser.

const KEY = "noetl.zone";

export const ownZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;

function stored(): string {
  try {
    return known(localStorage.getItem(KEY) ?? "");
  } catch {
    return ""; // a browser may forbid storage; the choice then lasts as long as the page
  }
}

/** A zone that this browser can show; nothing otherwise. */
function known(wanted: string): string {
  try {
    return wanted && Intl.DateTimeFormat(undefined, { timeZone: wanted }).resolvedOptions().timeZone;
  } catch {
    return "";
  }
}

export const zone = $state({ choice: stored() }); // empty: the browser's own

/** The zone of every time on the page that names none. */
export const shownZone = (): string => zone.choice || ownZone();

export const allZones = (): string[] => [
  ...new Set(["UTC", ownZone(), ...(Intl.supportedValuesOf?.("timeZone") ?? [])]),
];

export function chooseZone(wanted: string): void {
  zone.choice = wanted === ownZone() ? "" : known(wanted);
  try {
    localStorage.setItem(KEY, zone.choice);
  } catch {
    // see above
  }
}
