// Imported by the screen that loads CodeMirror later, since CodeMirror looks once, when it is loaded. It parses a text in
// the background for up to 100 ms at a time where a browser can tell that a key waits, and up to the end of an idle
// period, 50 ms at most, where it cannot. Other work of the page waits for either, so the shorter one is taken: as if the
// browser could not tell.
if (typeof navigator !== "undefined" && "scheduling" in navigator)
  Object.defineProperty(navigator, "scheduling", { value: undefined });
