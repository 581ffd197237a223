// A real node for the tests: its own process, database, data directory and ports.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

export const repo = resolve(process.cwd(), ".."); // the tests run in ui/

export const owner = { email: "owner@example.com", password: "harbour lights at dusk" };

/** The binary under test: the one given, or one built once into .cache. */
function binary(): string {
  const given = process.env.MS_TEST_BINARY;
  if (given) return given;
  const out = join(repo, ".cache", "e2e", "millstream");
  mkdirSync(join(repo, ".cache", "e2e"), { recursive: true });
  const done = spawnSync("go", ["build", "-trimpath", "-o", out, "./cmd/millstream"], { cwd: repo, stdio: "inherit" });
  if (done.status !== 0) throw new Error("the node does not build");
  return out;
}

function freePort(): Promise<number> {
  return new Promise((done, fail) => {
    const s = createServer();
    s.once("error", fail);
    s.listen(0, "127.0.0.1", () => { const { port } = s.address() as { port: number }; s.close(() => done(port)); });
  });
}

export class TestNode {
  url = "";
  org = "default";
  token = ""; // with every scope
  setupCode = ""; // of a node that nobody has set up
  output = ""; // the node's log
  #dir = mkdtempSync(join(tmpdir(), "ms-e2e-"));
  #child: ChildProcess | undefined;
  #env: Record<string, string> = {};

  /** Starts a node. A fresh one has no owner yet; env adds settings. */
  static async start(o: { fresh?: boolean; env?: Record<string, string> } = {}): Promise<TestNode> {
    const n = new TestNode();
    const [port, grpc] = [await freePort(), await freePort()];
    n.url = `http://127.0.0.1:${port}`;
    // Pictures are of a day long past: by default the compactor would delete its records as soon as it gets to them.
    n.#env = { MS_NODE_DATA_DIR: join(n.#dir, "data"), MS_HTTP_LISTEN: `127.0.0.1:${port}`, MS_OTLP_LISTEN: `127.0.0.1:${grpc}`, MS_COMPACTOR_RETENTION_DAYS: "0", ...(o.fresh ? {} : { MS_AUTH_ROOT_EMAIL: owner.email, MS_AUTH_ROOT_PASSWORD: owner.password }), ...o.env };
    await n.run();
    if (!o.fresh) await n.authorize();
    return n;
  }

  /** Starts the process, again after kill, and waits until it is ready. */
  async run() {
    const env = Object.fromEntries(Object.entries(process.env).filter(([k]) => !k.startsWith("MS_") || k === "MS_DEV_ASSETS"));
    const child = spawn(binary(), ["serve"], { env: { ...env, ...this.#env }, stdio: ["ignore", "pipe", "pipe"] });
    this.#child = child;
    for (const s of [child.stdout!, child.stderr!]) s.on("data", (d) => { this.output += d; });
    const until = Date.now() + 120_000;
    for (;;) {
      if (child.exitCode !== null) throw new Error(`the node ended with ${child.exitCode}:\n${this.output}`);
      if (await fetch(`${this.url}/api/v1/readyz`).then((r) => r.ok, () => false)) break;
      if (Date.now() > until) throw new Error(`the node is not ready:\n${this.output}`);
      await new Promise((r) => setTimeout(r, 100));
    }
    this.setupCode = /setup_code=(\S+)/.exec(this.output)?.[1] ?? "";
  }

  /** Signs in by the API and makes a token for seeding. */
  async authorize(who = owner) {
    const { token } = await this.json<{ token: string }>("POST", "/auth/login", who);
    this.token = token;
    this.token = (await this.json<{ token: string }>("POST", "/auth/tokens", { name: "tests", scopes: ["intake", "query", "admin"] })).token;
  }

  /** Calls the API below /api/v1; the body is sent as JSON unless it is text. */
  async call(method: string, path: string, body?: unknown, headers: Record<string, string> = {}): Promise<Response> {
    const init: RequestInit = { method, headers: { "Content-Type": "application/json", ...(this.token ? { Authorization: `Bearer ${this.token}` } : {}), ...headers } };
    if (body !== undefined) init.body = typeof body === "string" ? body : JSON.stringify(body);
    return fetch(`${this.url}/api/v1${path}`, init);
  }

  async json<T>(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<T> {
    const res = await this.call(method, path, body, headers);
    const text = await res.text();
    if (!res.ok) throw new Error(`${method} ${path}: ${res.status} ${text.slice(0, 500)}`);
    return (text ? JSON.parse(text) : undefined) as T;
  }

  flush() { return this.json("POST", "/node/flush"); }

  /** Path of a page of the organization. */
  path(page: string) { return `${this.url}/${this.org}/${page}`; }

  /** Ends the process as the operator would, or at once. */
  async stop(signal: "SIGTERM" | "SIGKILL" = "SIGTERM") {
    const child = this.#child;
    if (!child || child.exitCode !== null) return;
    const ended = new Promise((r) => child.once("exit", r));
    child.kill(signal);
    const force = setTimeout(() => child.kill("SIGKILL"), 20_000);
    await ended;
    clearTimeout(force);
  }

  async close() {
    await this.stop();
    rmSync(this.#dir, { recursive: true, force: true });
  }
}
