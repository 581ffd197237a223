// Files for the reader.
import type { Table } from "./query.ts";

export function saveFile(name: string, content: string, type: string) {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(new Blob([content], { type }));
  a.download = name.replace(/[^\p{L}\p{N} ._-]+/gu, "_").slice(0, 120);
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10_000);
}

/** A table as CSV. What a spreadsheet would run as a formula is kept from it by a quote. */
export function toCsv(t: Table): string {
  const cell = (v: unknown) => {
    let x = v === null || v === undefined ? "" : typeof v === "object" ? JSON.stringify(v) : String(v);
    if (typeof v !== "number" && /^[=+\-@\t\r]/.test(x)) x = `'${x}`;
    return /[",\n\r]/.test(x) ? `"${x.replaceAll('"', '""')}"` : x;
  };
  return [t.columns.map((c) => cell(c.name)), ...t.rows.map((r) => r.map(cell))].map((r) => r.join(",")).join("\r\n") + "\r\n";
}
