// Colours of the search language. The server parses; this only has to be right about what most text looks like, and never loses a character.

export interface Token { text: string; kind: "" | "field" | "op" | "kw" | "str" | "num" }

const pattern = /"(?:[^"\\]|\\.)*"?|\/(?:[^/\\\s]|\\.)+\/|\b(?:and|or|not|AND|OR|NOT|to|TO)\b(?=[\s()\]]|$)|[^\s"()<>=!:[\]]+(?=\s*(?::|[<>]=?|!?=))|[<>!]=|[:<>=()[\]]|(?<![^\s(])-(?=\S)|[^\s"()<>=!:[\]]+|\s+|./g;

export function searchTokens(text: string): Token[] {
  const out: Token[] = [];
  let valued = false; // the next word is a value
  for (const m of text.matchAll(pattern)) {
    const t = m[0], after = text.slice(m.index + t.length);
    let kind: Token["kind"] = "";
    if (/^\s+$/.test(t)) { out.push({ text: t, kind }); continue; }
    if (/^["/]/.test(t) && t.length > 1) kind = "str";
    else if (/^(and|or|not|to)$/i.test(t)) kind = "kw";
    else if (/^([:<>=()[\]]|[<>!]=|-)$/.test(t)) kind = "op";
    else if (/^\s*(:|[<>]=?|!?=)/.test(after)) kind = "field";
    else if (valued) kind = /^-?\d+(\.\d+)?[a-zµ]*$/i.test(t) ? "num" : "str";
    out.push({ text: t, kind });
    valued = kind === "op" ? t !== ")" && t !== "-" && (t !== "(" || valued) : kind === "kw" && valued;
  }
  return out;
}
