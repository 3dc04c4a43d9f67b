import { describe, expect, it } from "vitest";
import { quoted, sameElsewhere } from "./elsewhere";

describe("the same from a terminal", () => {
  it("quotes what a shell would take apart", () => {
    expect(quoted("a/b-1")).toBe("a/b-1");
    expect(quoted("it's $HOME `x`")).toBe("'it'\\''s $HOME `x`'");
    expect(quoted("")).toBe("''");
  });
  it("names the server, the version and the inputs", () => {
    const [cli, curl] = sameElsewhere("a/b", { n: 1 }, "2", "http://h:1/p/");
    expect(cli!.text).toBe(`noetl run a/b --version 2 --payload '{"n":1}' --server http://h:1/p`);
    expect(curl!.text).toContain("http://h:1/p/api/executions");
    expect(curl!.text).toContain(`'{"path":"a/b","version":"2","payload":{"n":1}}'`);
  });
});
