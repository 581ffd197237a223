// Names that every object has are ordinary names in data: a sender chooses its levels, fields, labels, metrics and units.
import assert from "node:assert/strict";
import { test } from "node:test";

(globalThis as any).document = { getElementById: () => null, querySelector: () => null, querySelectorAll: () => [] };

test("names of Object.prototype are nothing special", async () => {
  const { levelOf } = await import("../../src/lib/level.ts");
  const { formatValue, unitOf } = await import("../../src/lib/units.ts");
  for (const name of ["constructor", "__proto__", "valueOf", "toString", "hasOwnProperty"]) {
    assert.equal(levelOf(name), "", name);
    assert.equal(formatValue(1, name), `1 ${name}`, name);
    assert.equal(unitOf(`app_${name}`), "", name);
    assert.equal(unitOf("app_x", name), name);
  }
  const { parseRange } = await import("../../src/lib/range.ts");
  const r = parseRange("constructor", { now: 0, zone: "UTC" } as any);
  assert.ok("error" in r, JSON.stringify(r));
});

test("JSON that would fill the memory is not laid out", async () => {
  const { laidOut } = await import("../../src/lib/format.ts");
  assert.equal(laidOut('{"a":[1,"]"]}'), '{\n  "a": [\n    1,\n    "]"\n  ]\n}');
  assert.equal(laidOut("{not json"), undefined);
  assert.ok(laidOut('{"' + "[".repeat(100) + '":"\\"[[["}'), "brackets in texts are no nesting");
  const wide = `[${"1,".repeat(90_000)}1]`, nest = (n: number) => '{"a":'.repeat(n) + wide + "}".repeat(n);
  assert.ok(laidOut(nest(30))!.length < 10e6);
  assert.equal(laidOut(nest(2000)), undefined);
  assert.equal(laidOut('["' + '\\"'.repeat(90_000)), undefined, "a text without an end");
});

test("a link of Markdown leads to this node or says that it does not", async () => {
  (globalThis as any).Node ??= class {};
  if (!("navigator" in globalThis)) (globalThis as any).navigator = { platform: "" };
  const made: Record<string, string>[] = [];
  (globalThis as any).document.createElement = () => { const attrs: Record<string, string> = {}; made.push(attrs); return { setAttribute: (k: string, v: string) => { attrs[k] = v; }, append() {} }; };
  const { markdown } = await import("../../src/dashboard/markdown.ts");
  markdown("[a](/x/logs) [b](/\\evil.test) [c](//evil.test) [d](javascript:alert(1)) [e](https://other.test)");
  assert.deepEqual(made.filter((a) => a.href).map((a) => [a.href, a.rel ?? ""]), [["/x/logs", ""], ["https://other.test", "noopener noreferrer"]]);
});

test("an expression of a link does not stop the page", async () => {
  (globalThis as any).Node ??= class {};
  if (!("navigator" in globalThis)) (globalThis as any).navigator = { platform: "" };
  const { Marks, slow } = await import("../../src/logs/marks.ts");
  for (const e of ["(a+)+$", "((a+))+$", "(a|aa)+$", "(?:a*)*", "(a+){50}$", ".*a.*b.*c", "[^x]*a\\S*b\\w+c"]) assert.equal(slow(e), true, e);
  for (const e of ["time ?out", "\\d+\\.\\d+\\.\\d+\\.\\d+", "(error|warn): .*", "[(+*]+x", "\\(a+\\)+", "user=\\w+ .*", "(abc)+"]) assert.equal(slow(e), false, e);
  const text = "a".repeat(1000), at = performance.now();
  for (const [t, kind] of [["(a+)+$", "regex"], ["*a*a*a*a*a*a*b", "wildcard"], ["*a*a*b", "wildcard"], ["a*b", "wildcard"]] as const) new Marks([{ text: t, kind }]).of("message")?.test(text + "!");
  assert.ok(performance.now() - at < 2000, `${performance.now() - at} ms`);
  assert.equal("xx timeouts".replace(new Marks([{ text: "time*", kind: "wildcard" }]).of("message")!, "_"), "xx _");
  assert.equal("xx my-timeouts".replace(new Marks([{ text: "*time*out*", kind: "wildcard" }]).of("message")!, "_"), "xx _");
  assert.equal("xx timeouts".replace(new Marks([{ text: "t.me", kind: "regex" }]).of("message")!, "_"), "xx _outs");
});
