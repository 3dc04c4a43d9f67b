// Light, dark, or as the system has it. Kept in this browser.

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const KEY = "noetl.theme";

function stored(): Theme {
  try {
    const value = localStorage.getItem(KEY);
    return value === "light" || value === "dark" ? value : "system";
  } catch {
    return "system"; // a browser may forbid storage; the choice then lasts as long as the page
  }
}

export const theme = $state({ choice: stored() });

export function applyTheme(choice: Theme = theme.choice): void {
  theme.choice = choice;
  if (choice === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = choice;
  try {
    localStorage.setItem(KEY, choice);
  } catch {
    // see above
  }
}
