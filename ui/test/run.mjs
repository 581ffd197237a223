// Runs the tests of a folder with Node's runner: esbuild turns each TypeScript file into one that Node can load.
import { build } from "esbuild";
import { spawn } from "node:child_process";
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const [kind, ...rest] = process.argv.slice(2);
const flags = rest.filter((a) => a.startsWith("--")), only = rest.filter((a) => !a.startsWith("--")); // flags are the runner's, such as --test-name-pattern=…
const files = readdirSync(join(here, kind)).filter((f) => f.endsWith(".test.ts") && (only.length === 0 || only.some((o) => f.includes(o)))).map((f) => join(here, kind, f));
const out = mkdtempSync(join(here, ".build-"));
await build({ entryPoints: files, outdir: out, bundle: true, platform: "node", format: "esm", target: "node20", packages: "external", sourcemap: "inline", outExtension: { ".js": ".mjs" }, define: { ICONS: '"icons.svg"' }, logLevel: "warning" });
const built = readdirSync(out).filter((f) => f.endsWith(".mjs")).map((f) => join(out, f));
const run = (list) => new Promise((done) => spawn(process.execPath, ["--enable-source-maps", "--test", "--test-concurrency=1", ...flags, ...list], { stdio: "inherit", cwd: dirname(here) }).on("exit", (code) => done(code ?? 1)));

// Browser tests run file by file. One that fails is run once more, and that it did is said: a browser on a busy machine may be late, but a fault stays one.
let code = 0;
if (kind === "e2e") {
  for (const f of built) {
    let failed = await run([f]);
    if (failed && !flags.length) {
      console.log(`# ${f}: failed, runs once more`);
      failed = await run([f]);
      console.log(`# ${f}: ${failed ? "failed again" : "passed the second time: it is late or flaky, look at it"}`);
    }
    code ||= failed;
  }
} else {
  code = await run(built);
}
rmSync(out, { recursive: true, force: true });
process.exit(code);
