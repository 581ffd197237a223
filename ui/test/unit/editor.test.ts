import assert from "node:assert/strict";
import { test } from "node:test";

(globalThis as any).document = { getElementById: () => null, querySelector: () => null, querySelectorAll: () => [], addEventListener: () => {}, createElement: () => ({}), documentElement: { dataset: {} } };
(globalThis as any).addEventListener = () => {};

test("colours never lose a character", async () => {
  const { sqlTokens, promqlTokens } = await import("../../src/editor/tokens.ts");
  const { searchTokens } = await import("../../src/editor/search.ts");
  const texts = [
    "", " ", "SELECT count(*) FROM \"odd name\" WHERE level = 'it''s' -- why\nAND n >= 1.5e3 /* open", "select 'unclosed", "größe = 'ß' and \u{1F600} > 2",
    'sum by (service) (rate(http_requests_total{code=~"5..", path!="/x\\"y"}[5m])) / 2 # share', "{", '"', "a{b=", "rate(x[$__rate_interval]) offset 1h30m", 'level:error -"a b" n>=5 path:/x.*/ ((', "\t\n;%&`'",
  ];
  for (const tokens of [sqlTokens, promqlTokens, searchTokens]) for (const t of texts) assert.equal(tokens(t).map((x) => x.text).join(""), t);
  const kinds = (list: { text: string; kind: string }[]) => Object.fromEntries(list.filter((x) => x.text.trim()).map((x) => [x.text, x.kind]));
  assert.deepEqual(kinds(sqlTokens("SELECT count ( x ) FROM 'a' 12")), { SELECT: "kw", count: "kw", "(": "op", x: "", ")": "op", FROM: "kw", "'a'": "str", 12: "num" });
  const prom = kinds(promqlTokens('sum by (job) (rate(up{code="5"}[5m]))'));
  assert.deepEqual([prom.sum, prom.by, prom.rate, prom.up, prom.code, prom['"5"'], prom["5m"]], ["kw", "kw", "kw", "", "field", "str", "num"]);
});

test("PromQL: what is being typed", async () => {
  const { contextOf } = await import("../../src/editor/promql.ts");
  const is = (text: string, want: object) => assert.deepEqual(contextOf(text), want, text);
  is("", { kind: "none" });
  is("ra", { kind: "name", typed: "ra" });
  is("sum(rate(http_req", { kind: "name", typed: "http_req" });
  is("up{", { kind: "label", metric: "up", typed: "" });
  is('up{job="a", ins', { kind: "label", metric: "up", typed: "ins" });
  is('up{job="a', { kind: "value", label: "job", metric: "up", typed: "a" });
  is('up{job=~"a|', { kind: "value", label: "job", metric: "up", typed: "a|" });
  is('{job="', { kind: "value", label: "job", metric: undefined, typed: "" });
  is('up{job="a\\"b', { kind: "value", label: "job", metric: "up", typed: 'a\\"b' });
  is("up{job=", { kind: "none" });
  is("rate(up[", { kind: "duration", typed: "" });
  is("rate(up[5", { kind: "duration", typed: "5" });
  is("sum(rate(up[5m])) by (", { kind: "label", metric: "up", typed: "" });
  is("sum by (jo", { kind: "label", metric: undefined, typed: "jo" });
  is('up{job="a"} + ', { kind: "none" });
  is('up{job="a"} + do', { kind: "name", typed: "do" });
  is("up # comm", { kind: "none" });
});

test("SQL: the page's names come first, and nothing is offered inside of a text", async () => {
  const { sqlComplete } = await import("../../src/editor/sql.ts");
  const own = sqlComplete(async (_t, cursor) => ({ from: cursor - 2, to: cursor, items: [{ label: "service", kind: "field" }] }));
  const labels = async (text: string, f = own) => (await f(text, text.length))?.items.map((i) => i.label) ?? null;
  assert.deepEqual((await labels("SELECT se"))!.slice(0, 1), ["service"]);
  assert.deepEqual(await labels("SE", sqlComplete(undefined)), ["SELECT"]);
  assert.ok((await labels("approx_c", sqlComplete(undefined)))!.includes("approx_count_distinct"));
  assert.deepEqual(await labels("WHERE x = 'se", sqlComplete(undefined)), null);
  assert.deepEqual(await labels("SELECT ", sqlComplete(undefined)), null);
  assert.deepEqual(await labels("se", sqlComplete(async () => { throw new Error("no answer"); })), ["select"].map((w) => w.toUpperCase()));
});
