// Colours of series: eight that people with any of the common colour visions can tell apart (--c1 to --c8), given by a stable hash of the name, so that a
// service keeps its colour on every page. Past eight they repeat with a dash pattern.

export interface SeriesColour { token: string; dash: number } // token "--c1"; dash 0 is a solid line

const COLOURS = 8;

/** FNV-1a over UTF-16 units. */
function hash(name: string): number {
  let h = 0x811c9dc5;
  for (let i = 0; i < name.length; i++) h = Math.imul(h ^ name.charCodeAt(i), 0x01000193);
  return (h ^ (h >>> 15)) >>> 0;
}

/** The colour of a name that stands alone. */
export const seriesColour = (name: string): SeriesColour => ({ token: `--c${(hash(name) % COLOURS) + 1}`, dash: 0 });

/** Colours of names that are shown together: each its own as long as there are enough. They depend on the names only, not on their order. */
export function seriesColours(names: Iterable<string>): Map<string, SeriesColour> {
  const out = new Map<string, SeriesColour>();
  const taken = new Set<number>();
  for (const name of [...new Set(names)].sort()) {
    const dash = Math.floor(out.size / COLOURS);
    if (out.size % COLOURS === 0) taken.clear();
    let c = hash(name) % COLOURS;
    while (taken.has(c)) c = (c + 1) % COLOURS;
    taken.add(c);
    out.set(name, { token: `--c${c + 1}`, dash });
  }
  return out;
}

/** Patterns of the dashes, in pixels; the fifth and further are as the fourth. */
const dashes = [[], [6, 3], [2, 3], [9, 3, 2, 3], [12, 4]];
export const dashOf = (dash: number): number[] => dashes[Math.min(dash, dashes.length - 1)]!;

/** What a token is in the theme of now, for canvases; the style sheet takes var(token). */
export const paint = (token: string) => getComputedStyle(document.documentElement).getPropertyValue(token).trim();
