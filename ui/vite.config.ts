import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vitest/config";

// The server gives the page under any prefix, so every address in it is relative to the page's own.
export default defineConfig({
  base: "./",
  plugins: [svelte()],
  resolve: process.env.VITEST ? { conditions: ["browser"] } : {},
  build: {
    outDir: process.env.NOETL_UI_OUT ?? "../src/noetl/_ui",
    emptyOutDir: true,
    target: "es2022",
    modulePreload: { polyfill: false }, // the polyfill would be an inline script
    cssCodeSplit: true,
    assetsInlineLimit: 0,
  },
  server: { proxy: { "/api": process.env.NOETL_SERVER ?? "http://127.0.0.1:8082" } },
  // A document for each file took most of the time of all tests: those that need one say so in their first line.
  // No test fails for the time it takes: a busy machine takes more than vitest's five seconds.
  test: { environment: "node", include: ["src/**/*.test.ts"], testTimeout: 600_000 },
});
