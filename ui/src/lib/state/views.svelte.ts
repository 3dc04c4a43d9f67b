// Filters that somebody wants again, kept in this browser.

export interface View {
  name: string;
  search: string;
}

const KEY = "noetl.views";

function stored(): View[] {
  try {
    const found: unknown = JSON.parse(localStorage.getItem(KEY) ?? "[]");
    return Array.isArray(found)
      ? found.filter((one): one is View => typeof one?.name === "string" && typeof one?.search === "string")
      : [];
  } catch {
    return [];
  }
}

class Views {
  all = $state<View[]>(stored());

  save(name: string, search: string): void {
    this.keep([...this.all.filter((one) => one.name !== name), { name, search }]);
  }

  forget(name: string): void {
    this.keep(this.all.filter((one) => one.name !== name));
  }

  private keep(views: View[]): void {
    this.all = views;
    try {
      localStorage.setItem(KEY, JSON.stringify(views));
    } catch {
      // kept as long as the page then
    }
  }
}

export const views = new Views();
