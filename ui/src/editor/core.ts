// CodeMirror with the parts that a query box needs, in a shadow root: there its style sheets are adopted ones, which the page's policy allows.
import { acceptCompletion, autocompletion, closeBrackets, closeBracketsKeymap, completionKeymap } from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap } from "@codemirror/commands";
import { bracketMatching, HighlightStyle, syntaxHighlighting } from "@codemirror/language";
import { type Extension, Prec, StateEffect, StateField } from "@codemirror/state";
import { Decoration, type DecorationSet, EditorView, keymap, placeholder, tooltips } from "@codemirror/view";
import { tags } from "@lezer/highlight";
import { h } from "../lib/dom.ts";
import { type Mark, markEnd, type Surface, type SurfaceOptions } from "./surface.ts";

const setMark = StateEffect.define<Mark | null>();

const marks = StateField.define<DecorationSet>({
  create: () => Decoration.none,
  update(was, tr) {
    for (const e of tr.effects) {
      if (!e.is(setMark)) continue;
      const text = tr.state.doc.toString(), m = e.value;
      if (!m || text === "") return Decoration.none;
      const from = Math.min(m.from, text.length - 1);
      return Decoration.set([Decoration.mark({ class: "cm-wrong" }).range(from, Math.max(from + 1, markEnd(text, m)))]);
    }
    return tr.docChanged ? Decoration.none : was;
  },
  provide: (f) => EditorView.decorations.from(f),
});

const colours = HighlightStyle.define([
  { tag: [tags.keyword, tags.modifier, tags.operatorKeyword, tags.bool, tags.null], color: "var(--syn-kw)" },
  { tag: [tags.string, tags.special(tags.string)], color: "var(--syn-str)" },
  { tag: [tags.number], color: "var(--syn-num)" },
  { tag: [tags.standard(tags.name), tags.function(tags.variableName), tags.labelName, tags.typeName], color: "var(--syn-field)" },
  { tag: [tags.operator, tags.punctuation, tags.paren, tags.brace, tags.squareBracket, tags.separator], color: "var(--syn-op)" },
  { tag: tags.comment, color: "var(--text-3)", fontStyle: "italic" },
]);

const look = EditorView.theme({
  "&": { backgroundColor: "transparent", color: "var(--text)", fontSize: "var(--fs-13)" },
  "&.cm-focused": { outline: "none" },
  ".cm-scroller": { fontFamily: "var(--font-mono)", fontFeatureSettings: '"zero","calt" 0', lineHeight: "1.55", maxHeight: "var(--ed-max, 40vh)" },
  ".cm-content": { padding: "var(--ed-pad, 9px 12px)", caretColor: "var(--text)" },
  ".cm-line": { padding: "0" },
  ".cm-placeholder": { color: "var(--text-3)" },
  ".cm-wrong": { textDecoration: "underline wavy var(--lv-error)", textUnderlineOffset: "3px" },
  ".cm-matchingBracket": { backgroundColor: "var(--accent-soft) !important", outline: "1px solid var(--accent-line)" },
  ".cm-nonmatchingBracket": { backgroundColor: "var(--lb-error) !important" },
  ".cm-content ::selection": { backgroundColor: "color-mix(in srgb,var(--accent) 28%,transparent)" },
  ".cm-tooltip": { zIndex: "40", border: "1px solid var(--border)", borderRadius: "var(--r-3)", backgroundColor: "var(--surface)", color: "var(--text)", boxShadow: "var(--shadow-2)" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul": { fontFamily: "var(--font-mono)", fontSize: "var(--fs-12)", maxHeight: "260px", padding: "4px" },
  ".cm-tooltip.cm-tooltip-autocomplete > ul > li": { padding: "3px 8px", borderRadius: "var(--r-1)", lineHeight: "1.5" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--surface-3)", color: "var(--text)" },
  ".cm-completionDetail": { color: "var(--text-3)", fontStyle: "normal", marginLeft: "12px" },
  ".cm-completionMatchedText": { textDecoration: "none", fontWeight: "700", color: "var(--accent)" },
  ".cm-completionInfo": { padding: "8px 10px", maxWidth: "320px", fontSize: "var(--fs-12)", fontFamily: "var(--font-ui)" },
});

/** Mounts CodeMirror in the element. The language's own extensions bring its completion. */
export function codemirror(host: HTMLElement, o: SurfaceOptions, language: Extension): Surface {
  const box = h("div", { class: "ed-cm" });
  const root = box.attachShadow({ mode: "open" });
  host.append(box);
  let silent = false;
  const run = () => { o.onRun(); return true; };
  const view = new EditorView({
    parent: root, root,
    extensions: [
      Prec.highest(keymap.of([{ key: "Mod-Enter", run }, ...(o.multiline ? [] : [{ key: "Shift-Enter", run: newline }])])),
      Prec.high(keymap.of([{ key: "Tab", run: acceptCompletion }])),
      keymap.of([...closeBracketsKeymap, ...completionKeymap, ...(o.multiline ? [] : [{ key: "Enter", run }]), ...defaultKeymap, ...historyKeymap]),
      history(), closeBrackets(), bracketMatching(), autocompletion({ icons: false, maxRenderedOptions: 100 }), tooltips({ position: "fixed" }), marks, syntaxHighlighting(colours), look,
      EditorView.lineWrapping, placeholder(o.placeholder), EditorView.contentAttributes.of({ "aria-label": o.label, spellcheck: "false", autocapitalize: "none", autocorrect: "off" }),
      EditorView.updateListener.of((u) => { if (u.docChanged && !silent) o.onChange(); }),
      language,
    ],
  });
  return {
    get value() { return view.state.doc.toString(); },
    set value(v) {
      if (v === view.state.doc.toString()) return;
      silent = true;
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: v }, selection: { anchor: v.length } });
      silent = false;
    },
    get selection(): [number, number] { const r = view.state.selection.main; return [r.from, r.to]; },
    get focused() { return view.hasFocus; },
    select: (from, to) => { const n = view.state.doc.length; view.dispatch({ selection: { anchor: Math.min(from, n), head: Math.min(to, n) } }); },
    focus: () => view.focus(),
    insert: (text) => { view.dispatch(view.state.replaceSelection(text), { userEvent: "input" }); view.focus(); },
    mark: (m) => view.dispatch({ effects: setMark.of(m) }),
    destroy: () => { view.destroy(); box.remove(); },
  };
}

function newline(view: EditorView) {
  view.dispatch(view.state.replaceSelection("\n"), { scrollIntoView: true, userEvent: "input" });
  return true;
}
