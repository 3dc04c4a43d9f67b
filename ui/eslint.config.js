// Formatting is prettier's; here is only what may be wrong. A warning fails the check like an error (package.json).

import js from "@eslint/js";
import prettier from "eslint-config-prettier";
import svelte from "eslint-plugin-svelte";
import globals from "globals";
import ts from "typescript-eslint";
import svelteConfig from "./svelte.config.js";

export default ts.config(
  { ignores: ["node_modules", "test-results", "src/lib/api/types.ts"] },
  js.configs.recommended,
  ts.configs.recommended,
  svelte.configs.recommended,
  prettier,
  svelte.configs.prettier,
  { languageOptions: { globals: { ...globals.browser, ...globals.node } } },
  {
    files: ["**/*.svelte", "**/*.svelte.ts"],
    languageOptions: { parserOptions: { parser: ts.parser, extraFileExtensions: [".svelte"], svelteConfig } },
  },
  {
    rules: {
      "no-undef": "off", // TypeScript knows
      eqeqeq: "error",
      "svelte/no-at-html-tags": "error", // text from playbooks and data is text (DESIGN.md)
      "svelte/prefer-svelte-reactivity": "off", // sets and maps are replaced or private on purpose: a log has 100,000 rows
    },
  },
);
