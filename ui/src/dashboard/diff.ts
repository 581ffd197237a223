// Two states of a dashboard, compared.

/** What differs between two states, by the path of each value; at most 200 lines. */
export function differences(was: unknown, is: unknown, path = ""): string[] {
  if (Object.is(was, is) || JSON.stringify(was) === JSON.stringify(is)) return [];
  const object = (x: unknown): x is Record<string, unknown> => typeof x === "object" && x !== null;
  if (object(was) && object(is)) {
    const key = (x: unknown, i: number) => (object(x) && "id" in x ? `#${String(x.id)}` : String(i));
    const entries = (x: Record<string, unknown>): [string, unknown][] => (Array.isArray(x) ? x.map((v, i) => [key(v, i), v]) : Object.entries(x));
    const a = new Map(entries(was)), b = new Map(entries(is));
    return [...new Set([...a.keys(), ...b.keys()])].flatMap((k) => differences(a.get(k), b.get(k), path ? `${path}.${k}` : k)).slice(0, 200);
  }
  const short = (x: unknown) => { const t = JSON.stringify(x) ?? ""; return t.length > 80 ? t.slice(0, 79) + "…" : t; };
  return [was === undefined ? `${path}: added ${short(is)}` : is === undefined ? `${path}: removed ${short(was)}` : `${path}: ${short(was)} → ${short(is)}`];
}
