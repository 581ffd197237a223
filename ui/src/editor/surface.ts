// What the query editor is made of.

/** A text field for a query. Offsets are indexes of the string. */
export interface Surface {
  value: string; // setting it is no change by the reader
  readonly selection: [number, number];
  readonly focused: boolean;
  select(from: number, to: number): void;
  focus(): void;
  insert(text: string): void; // in place of the selection; the reader can undo it
  mark(m: Mark | null): void;
  repaint(): void; // the colours have come, or changed
  destroy(): void;
}

/** Where a statement is wrong. Without `to` it is the word at `from`. */
export interface Mark { from: number; to?: number; message: string }

export interface Item { label: string; kind?: string; detail?: string; apply?: string }
export interface Completion { from: number; to: number; items: Item[] }
export type Complete = (text: string, cursor: number) => Promise<Completion | null>;

export interface SurfaceOptions {
  label: string;
  placeholder: string;
  multiline: boolean; // Enter is a new line, and only mod+Enter runs
  complete: () => Complete | undefined;
  onChange: () => void;
  onRun: () => void;
}

/** The end of what a mark covers: a word, or one character. */
export function markEnd(text: string, m: Mark): number {
  if (m.to !== undefined) return Math.min(text.length, Math.max(m.to, m.from + 1));
  const word = /^[\p{L}\p{N}_.]+/u.exec(text.slice(m.from));
  return Math.min(text.length, m.from + Math.max(1, word?.[0].length ?? 1));
}
