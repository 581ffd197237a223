// Builds the browser's files into dist/ (or the directory given by --out): scripts by esbuild, the style sheets, the icon sprite and the fonts, each with a
// hash of its content in its name, and manifest.json, which maps logical names to what the server embeds.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(fileURLToPath(import.meta.url));
const at = process.argv.indexOf("--out");
const out = at > 0 ? process.argv[at + 1] : join(root, "dist");
const src = (...p) => join(root, "src", ...p);

const options = {
  bundle: true, format: "esm", splitting: true, minify: true, metafile: true, legalComments: "none", charset: "utf8",
  target: ["es2022", "chrome111", "firefox113", "safari16.4"], outdir: out, absWorkingDir: root, logLevel: "warning",
  entryNames: "[name].[hash]", chunkNames: "c.[hash]", assetNames: "[name].[hash]", loader: { ".woff2": "file", ".svg": "file" },
};

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
const manifest = {};

// The icons: one sprite of the lucide symbols that src/icons.txt names.
const names = readFileSync(src("icons.txt"), "utf8").split(/\s+/).filter(Boolean).sort();
const symbols = names.map((name) => {
  const svg = readFileSync(join(root, "node_modules/lucide-static/icons", name + ".svg"), "utf8");
  const inner = svg.slice(svg.indexOf(">", svg.indexOf("<svg")) + 1, svg.lastIndexOf("</svg>")).replace(/\s+/g, " ").trim();
  return `<symbol id="${name}" viewBox="0 0 24 24">${inner}</symbol>`;
});
emit("icons.svg", `<svg xmlns="http://www.w3.org/2000/svg">${symbols.join("")}</svg>`);
emit("favicon.svg", readFileSync(src("favicon.svg"), "utf8"));
writeFileSync(join(out, "icons.json"), JSON.stringify(names));

// Pages whose style sheet is not app.css, by sheet. Each page loads one.
const sheets = { explore: new Set(["logs", "metrics", "traces", "trace", "services", "dashboards", "dashboard"]), cluster: new Set(["nodes", "ownership"]) };

// The scripts, one entry a page, and the style sheets. A page's script is its entry and the chunks that it always needs; those are named in the manifest so
// that the page can ask for all at once.
const pages = readdirSync(src("pages")).filter((f) => f.endsWith(".ts")).sort().map((f) => src("pages", f));
const result = await build({ ...options, entryPoints: pages, plugins: [fewChunks()], define: { ICONS: JSON.stringify(manifest["icons.svg"].file) } });
const css = await build({ ...options, splitting: false, entryPoints: ["app", ...Object.keys(sheets)].map((f) => src("css", f + ".css")) });
for (const [file, o] of Object.entries({ ...result.metafile.outputs, ...css.metafile.outputs })) {
  if (!o.entryPoint && !/\.woff2$/.test(file)) continue;
  const name = o.entryPoint ? basename(o.entryPoint).replace(/\.ts$/, ".js") : basename(file).replace(/\.[A-Z0-9]{8}\.woff2$/, ".woff2");
  const imports = o.imports.filter((i) => i.kind === "import-statement" && !i.external).map((i) => basename(i.path)).sort();
  if (o.entryPoint?.includes("/pages/") || o.entryPoint?.includes("/css/") || !o.entryPoint) manifest[name] = { file: basename(file), ...(imports.length ? { imports } : {}) };
}
for (const [sheet, of] of Object.entries(sheets)) for (const page of of) manifest[page + ".js"].style = manifest[sheet + ".css"].file;
for (const entry of Object.values(manifest)) if (entry.imports) entry.imports = closure(entry.imports, result.metafile.outputs);

writeFileSync(join(out, "manifest.json"), JSON.stringify(Object.fromEntries(Object.entries(manifest).sort()), null, 1) + "\n");
writeFileSync(join(out, "THIRD_PARTY.txt"), notices());

// fewChunks keeps the number of files small that a page waits for. A module that several entries and lazily loaded modules use becomes a chunk of its own for each
// combination of them, unless all of them use it: so every page and every lazy module says that it needs what most pages share (the frame and lib/), those of
// explorers also the elements that explorers share, and a lazy module of a page the page's own modules. By then those are loaded.
function fewChunks() {
  const files = (dir) => readdirSync(dir, { withFileTypes: true }).flatMap((f) => (f.isDirectory() ? files(join(dir, f.name)) : f.name.endsWith(".ts") ? [join(dir, f.name)] : []));
  const shared = { frame: [src("app.ts"), ...files(src("lib"))], elements: ["editor", "grid", "histogram", "select", "time"].map((f) => src("el", f + ".ts")) };
  const lazy = new Set(files(src()).flatMap((f) => [...readFileSync(f, "utf8").matchAll(/\bimport\("(\.[^"]+)"\)/g)].map((m) => join(dirname(f), m[1]))));
  const needs = (path) => {
    const dir = basename(dirname(path)), name = basename(path, ".ts");
    if (dir === "pages") return name === "account" ? [] : sheets.explore.has(name) ? ["shared:frame", "shared:elements"] : ["shared:frame"];
    if (!lazy.has(path)) return [];
    const page = src("pages", dir + ".ts");
    return pages.includes(page) ? [page] : name === "palette" ? ["shared:frame"] : ["shared:frame", "shared:elements"];
  };
  return {
    name: "few-chunks",
    setup(b) {
      b.onResolve({ filter: /^shared:/ }, (a) => ({ path: a.path.slice(7), namespace: "shared", sideEffects: true }));
      b.onLoad({ filter: /.*/, namespace: "shared" }, (a) => ({ contents: shared[a.path].map((f) => `import ${JSON.stringify(f)};`).join("\n"), resolveDir: root }));
      b.onLoad({ filter: /\.ts$/ }, (a) => {
        const more = needs(a.path);
        return more.length ? { contents: more.map((m) => `import ${JSON.stringify(m)};`).join("") + readFileSync(a.path, "utf8"), loader: "ts" } : undefined;
      });
    },
  };
}

function emit(name, text) {
  const hash = createHash("sha256").update(text).digest("hex").slice(0, 8).toUpperCase();
  const file = name.replace(/(\.[a-z]+)$/, `.${hash}$1`);
  writeFileSync(join(out, file), text);
  manifest[name] = { file };
}

// closure is all chunks that are loaded with the given ones.
function closure(first, outputs) {
  const byName = Object.fromEntries(Object.entries(outputs).map(([f, o]) => [basename(f), o]));
  const all = new Set(first);
  for (const f of all) for (const i of byName[f]?.imports ?? []) if (i.kind === "import-statement") all.add(basename(i.path));
  return [...all].sort();
}

// notices are the licences of what the files contain.
function notices() {
  const packages = ["htmx.org", "uplot", "lucide-static", "@fontsource-variable/inter", "@fontsource-variable/jetbrains-mono"];
  return packages.sort().map((p) => {
    const dir = join(root, "node_modules", p);
    const { version, license } = JSON.parse(readFileSync(join(dir, "package.json"), "utf8"));
    const file = readdirSync(dir).find((f) => /^licen[cs]e/i.test(f));
    const text = file ? readFileSync(join(dir, file), "utf8").trim() : "";
    return `${p} ${version} (${license})\n\n${text}\n`;
  }).join("\n" + "-".repeat(80) + "\n\n");
}
