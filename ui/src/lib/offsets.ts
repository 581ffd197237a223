// Where each row of a list begins when rows differ in height: every row is as high as usual, give or take a difference that is kept in a binary indexed tree.
// Finding the row at a position and changing one height take a logarithm of the number of rows.

export class Offsets {
  private diff = new Float64Array(64); // of each row to the usual height
  private tree = new Float64Array(65);
  private n = 0;

  constructor(private usual: number) {}

  get length() { return this.n; }

  /** All rows anew, each of the usual height. */
  reset(n: number, usual = this.usual) {
    this.usual = usual;
    this.n = n;
    let size = 64;
    while (size < n) size *= 2;
    this.diff = new Float64Array(size);
    this.tree = new Float64Array(size + 1);
  }

  /** Rows of the usual height after the last, or before the first. */
  grow(by: number, where: "end" | "start") {
    if (where === "end" && this.n + by <= this.diff.length) { this.n += by; return; }
    const old = this.diff.subarray(0, this.n);
    this.reset(this.n + by);
    this.diff.set(old, where === "start" ? by : 0);
    this.build();
  }

  /** Leaves out rows at the end. */
  cut(n: number) {
    if (n >= this.n) return;
    this.diff.fill(0, n);
    this.n = n;
    this.build();
  }

  private build() {
    this.tree.fill(0);
    for (let i = 1; i < this.tree.length; i++) {
      this.tree[i]! += this.diff[i - 1]!;
      const up = i + (i & -i);
      if (up < this.tree.length) this.tree[up]! += this.tree[i]!;
    }
  }

  height(i: number) { return this.usual + this.diff[i]!; }

  set(i: number, height: number) {
    const by = height - this.height(i);
    this.diff[i]! += by;
    for (let k = i + 1; k < this.tree.length; k += k & -k) this.tree[k]! += by;
  }

  /** Where row i begins; at(length) is the height of all. */
  at(i: number) {
    let sum = i * this.usual;
    for (let k = i; k > 0; k -= k & -k) sum += this.tree[k]!;
    return sum;
  }

  /** The row at a position; the last one for those beyond it. */
  find(y: number) {
    let at = 0;
    for (let step = this.tree.length - 1; step > 0; step >>= 1) {
      const next = at + step;
      if (next > this.n) continue;
      const span = this.tree[next]! + step * this.usual;
      if (span <= y) { y -= span; at = next; }
    }
    return Math.max(0, Math.min(at, this.n - 1));
  }
}
