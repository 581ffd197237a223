// Text of records as nodes: colours of terminals become classes, what was searched for is marked. Nothing of the text is ever parsed as HTML.
import { h, visible } from "../lib/dom.ts";

export interface Term { field?: string; text: string; kind: "word" | "value" | "wildcard" | "regex" }

const escape = (t: string) => t.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** Whether an expression that the server matches in linear time may take this machine's, which tries every way, forever: then its matches are not marked. A link can
 * bring such an expression, and a sender the text for it. */
export function slow(expression: string): boolean {
  const groups = [false]; // whether what is in each open group repeats or has alternatives
  let wide = 0; // repetitions of what fits nearly everything
  for (const m of expression.matchAll(/\\[pP]\{[^}]*\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|./gsu)) {
    const c = m[0], next = expression[m.index + c.length] ?? "", repeats = next === "*" || next === "+" || next === "{";
    if (c === "(") groups.push(false);
    else if (c === "|") groups[groups.length - 1] = true;
    else if (c === ")") {
      const busy = groups.pop() ?? false;
      if (busy && repeats) return true;
      if (groups.length === 0) return true; // it is none
      if (busy || repeats) groups[groups.length - 1] = true;
    } else if (repeats && c !== "*" && c !== "+") {
      groups[groups.length - 1] = true;
      if (/^(\.|\\[wWDSpP]|\[)/.test(c) && ++wide > 2) return true;
    }
  }
  return false;
}

/** One expression for what a field's text is to be marked for; undefined: nothing. */
export class Marks {
  private any: Term[] = [];
  private made = new Map<string, RegExp | undefined>();
  constructor(terms: Term[]) { this.any = terms.slice(0, 40); }

  of(field: string): RegExp | undefined {
    if (!this.made.has(field)) this.made.set(field, this.make(this.any.filter((t) => !t.field || t.field === field)));
    return this.made.get(field);
  }

  private make(terms: Term[]): RegExp | undefined {
    const parts = terms.flatMap((t) => {
      if (!t.text) return [];
      const words = t.text.split(/\s+/).filter(Boolean).map((w) => escape(w)).join("[^\\p{L}\\p{N}]+");
      if (t.kind === "wildcard") return words.replace(/\\\*$/, "").split("\\*").length > 3 ? [] : words.replaceAll("\\*", "[\\p{L}\\p{N}_.-]{0,48}");
      return t.kind !== "regex" ? words : slow(t.text) ? [] : t.text;
    }).filter((p) => { try { new RegExp(p, "giu"); return true; } catch { return false; } });
    if (parts.length === 0) return undefined;
    return new RegExp(parts.join("|"), "giu");
  }
}

/** Text as nodes. */
export function nodes(text: string, re: RegExp | undefined): Node[] {
  return text.includes("\u001b[") ? ansi(text, re) : marked(visible(text), re);
}

function marked(text: string, re: RegExp | undefined): Node[] {
  if (!re) return [document.createTextNode(text)];
  const out: Node[] = [];
  let at = 0, n = 0;
  re.lastIndex = 0;
  for (let m = re.exec(text); m && n < 200; m = re.exec(text), n++) {
    if (m[0] === "") { re.lastIndex++; continue; }
    if (m.index > at) out.push(document.createTextNode(text.slice(at, m.index)));
    out.push(h("mark", null, m[0]));
    at = m.index + m[0].length;
  }
  if (at < text.length) out.push(document.createTextNode(text.slice(at)));
  return out;
}

/** The colours that a program wrote for a terminal. */
function ansi(text: string, re: RegExp | undefined): Node[] {
  const out: Node[] = [];
  let cls = "";
  for (const [i, part] of text.split(/\u001b\[([\d;]*)m/).entries()) {
    if (i % 2) {
      for (const code of part.split(";").map(Number)) {
        if (code === 0) cls = "";
        else if (code === 1) cls += " ansi-b";
        else if ((code >= 30 && code <= 37) || (code >= 90 && code <= 97)) cls = cls.replace(/ ansi-\d/, "") + ` ansi-${code % 10}`;
        else if (code === 39) cls = cls.replace(/ ansi-\d/, "");
      }
    } else if (part) out.push(...(cls ? [h("span", { class: cls.trim() }, ...marked(visible(part), re))] : marked(visible(part), re)));
  }
  return out;
}
