import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { literals } from "./literals";

const SOURCES = join(import.meta.dirname, "..");
/** Made from the server's description of its API, commands for a terminal, YAML, or no part of the page. */
const NO_SCREEN = /\.test\.ts$|^texts\/|^lib\/(api\/types|run\/elsewhere|editor\/trigger)\.ts$/;

function foundIn(name: string): string[] {
  const source = readFileSync(join(SOURCES, name), "utf-8");
  const markup = name.endsWith(".svelte") ? source : `<script lang="ts">${source}</script>`;
  return literals(markup).map(({ line, text }) => `${name}:${line}: ${text}`);
}

describe("texts", () => {
  it("stand in the catalogue, and in no screen", () => {
    const files = readdirSync(SOURCES, { recursive: true, encoding: "utf-8" })
      .filter((name) => /\.(svelte|ts)$/.test(name) && !NO_SCREEN.test(name))
      .sort();

    expect(files.length).toBeGreaterThan(60);
    expect(files.flatMap(foundIn)).toEqual([]);
  });

  it.each([
    "<p>Nothing has run</p>",
    "<p><b>{name}</b> began</p>",
    '<input aria-label="Find" />',
    '<input title="of {name}" />',
    '<Field hint={isOpen ? "open" : ""} />',
    "<p>{many === 1 ? one : `${many} runs`}</p>",
    '<Table columns={["Name"]} />',
    '<Button onclick={() => tell("Copied")} />',
    '{#each [{ word: "none" }] as one (one)}{one.word}{/each}',
    '<script lang="ts">tell("It is gone");</script>',
    '<script lang="ts">const TABS = [{ name: "net", word: "net" }];</script>',
    '<script lang="ts">tell(`${name} is gone`);</script>',
  ])("are found in %s", (source) => expect(literals(source)).toHaveLength(1));

  it.each([
    "<p>{t.none} · 12</p>",
    "<code>noetl register</code>",
    '<input type="text" class="mono wide" data-search />',
    '<script lang="ts">if (state === "Enter") go("/catalog/new", { name: "net" });</script>',
    '<script lang="ts">box.querySelector("input, select, .row[data-x]");</script>',
  ])("are not what is read by programs: %s", (source) => expect(literals(source)).toEqual([]));
});
