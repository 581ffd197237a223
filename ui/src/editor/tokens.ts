// Colours of SQL and PromQL. The server parses; this only has to be right about what most text looks like, and never loses a character.
import type { Token } from "./search.ts";
import { aggregations, functions as promFunctions, modifiers } from "./promql.ts";
import { functions as sqlFunctions, keywords, types } from "./sql.ts";

const words = (list: string) => new Set(list.toLowerCase().split(" "));
const sqlWords = words(keywords), sqlTypes = words(types), sqlCalls = words(sqlFunctions);
const promCalls = new Set([...promFunctions, ...aggregations]), promWords = new Set(modifiers);

const sqlPattern = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)|'(?:[^']|'')*'?|"(?:[^"]|"")*"?|\b\d+(?:\.\d+)?(?:e[+-]?\d+)?\b|[\p{L}_][\p{L}\p{N}_]*|\s+|[\s\S]/giu;

export function sqlTokens(text: string): Token[] {
  return each(text, sqlPattern, (t) => {
    if (/^(--|\/\*)/.test(t)) return "op";
    if (t[0] === "'") return "str";
    if (t[0] === '"') return "field";
    if (/^\d/.test(t)) return "num";
    const w = t.toLowerCase();
    return sqlWords.has(w) || sqlTypes.has(w) ? "kw" : sqlCalls.has(w) ? "field" : /^[^\s\p{L}\p{N}_]$/u.test(t) ? "op" : "";
  });
}

const promPattern = /#[^\n]*|"(?:[^"\\]|\\.)*"?|'(?:[^'\\]|\\.)*'?|`[^`]*`?|\b\d+(?:ms|[smhdwy])(?:\d+(?:ms|[smhdwy]))*\b|\b(?:0x[\da-f]+|\d+(?:\.\d+)?(?:e[+-]?\d+)?)\b|\$?[a-zA-Z_:][\w:.]*|\s+|=~|!~|[=!<>]=|[\s\S]/gi;

export function promqlTokens(text: string): Token[] {
  return each(text, promPattern, (t, after) => {
    if (t[0] === "#") return "op";
    if (/^["'`]/.test(t)) return "str";
    if (/^\d/.test(t)) return "num";
    if (/^[a-z]/i.test(t) && promWords.has(t.toLowerCase())) return "kw";
    if (promCalls.has(t) && /^\s*(\(|by\b|without\b)/i.test(after)) return "kw";
    if (/^[a-zA-Z_]\w*$/.test(t) && /^\s*(=~|!~|!=|=(?!=))/.test(after)) return "field";
    return /^\W+$/.test(t) && !/^\s/.test(t) && t[0] !== "$" ? "op" : "";
  });
}

function each(text: string, pattern: RegExp, kind: (t: string, after: string) => Token["kind"]): Token[] {
  return [...text.matchAll(pattern)].map((m) => ({ text: m[0], kind: kind(m[0], text.slice(m.index + m[0].length, m.index + m[0].length + 40)) }));
}
