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
  test: {
    testTimeout: 600_000, // no test fails for the time it takes: a busy machine takes more than vitest's five seconds
    // Modules and a document of their own for each file took most of the time of all tests. They share them, and put
    // back what they change; those that need a document are named NAME.dom.test.ts.
    isolate: false,
    unstubGlobals: true,
    projects: [
      { extends: true, test: { name: "plain", include: ["src/**/*.test.ts"], exclude: ["src/**/*.dom.test.ts"] } },
      { extends: true, test: { name: "dom", include: ["src/**/*.dom.test.ts"], environment: "happy-dom" } },
    ],
  },
});
