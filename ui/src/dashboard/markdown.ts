// A part of Markdown as elements: headings, paragraphs, lists, code, emphasis, links, rules. HTML in it is text, as is everything that is not known.
import { h } from "../lib/dom.ts";

const inlinePattern = /`([^`]+)`|\*\*([^*]+)\*\*|__([^_]+)__|\*([^*\s][^*]*)\*|_([^_\s][^_]*)_|\[([^\]]*)\]\(([^)\s]+)\)|(https?:\/\/[^\s<>()]+)/g;

function inline(text: string): (Node | string)[] {
  const out: (Node | string)[] = [];
  let at = 0;
  for (const m of text.matchAll(inlinePattern)) {
    if (m.index > at) out.push(text.slice(at, m.index));
    at = m.index + m[0].length;
    if (m[1]) out.push(h("code", null, m[1]));
    else if (m[2] ?? m[3]) out.push(h("strong", null, inline(m[2] ?? m[3]!)));
    else if (m[4] ?? m[5]) out.push(h("em", null, inline(m[4] ?? m[5]!)));
    else out.push(link(m[7] ?? m[8]!, m[6] ?? m[8]!));
  }
  if (at < text.length) out.push(text.slice(at));
  return out;
}

// Only http, https and paths of this node are followed.
function link(to: string, text: string): Node | string {
  const ours = /^\/(?![/\\])/.test(to); // browsers take \ for /, and two of them lead elsewhere
  return ours || /^https?:\/\//i.test(to) ? h("a", { class: "link", href: to, ...(ours ? {} : { rel: "noopener noreferrer", target: "_blank" }) }, text || to) : text;
}

export function markdown(text: string): HTMLElement {
  const out = h("div", { class: "md" });
  const lines = text.replace(/\r\n?/g, "\n").split("\n");
  for (let i = 0; i < lines.length; ) {
    const line = lines[i]!;
    if (/^```/.test(line)) {
      const end = lines.findIndex((l, k) => k > i && /^```/.test(l)), stop = end < 0 ? lines.length : end;
      out.append(h("pre", { tabindex: "0" }, h("code", null, lines.slice(i + 1, stop).join("\n"))));
      i = stop + 1;
    } else if (/^#{1,6}\s/.test(line)) {
      const level = line.search(/\s/);
      out.append(h(`h${Math.min(6, level + 2)}`, null, inline(line.slice(level + 1))));
      i++;
    } else if (/^\s*([-*+]|\d+[.)])\s/.test(line)) {
      const ordered = /^\s*\d/.test(line), items: HTMLElement[] = [];
      for (; i < lines.length && /^\s*([-*+]|\d+[.)])\s/.test(lines[i]!); i++) items.push(h("li", null, inline(lines[i]!.replace(/^\s*([-*+]|\d+[.)])\s+/, ""))));
      out.append(h(ordered ? "ol" : "ul", null, items));
    } else if (/^\s*([-*_])\s*(\1\s*){2,}$/.test(line)) {
      out.append(h("hr"));
      i++;
    } else if (/^>\s?/.test(line)) {
      const part: string[] = [];
      for (; i < lines.length && /^>\s?/.test(lines[i]!); i++) part.push(lines[i]!.replace(/^>\s?/, ""));
      out.append(h("blockquote", null, inline(part.join(" "))));
    } else if (!line.trim()) {
      i++;
    } else {
      const part: string[] = [];
      for (; i < lines.length && lines[i]!.trim() && !/^(#{1,6}\s|```|>|\s*([-*+]|\d+[.)])\s)/.test(lines[i]!); i++) part.push(lines[i]!);
      if (part.length === 0) { part.push(line); i++; }
      out.append(h("p", null, inline(part.join(" "))));
    }
  }
  return out;
}
