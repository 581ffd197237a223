import assert from "node:assert/strict";
import { test } from "node:test";
import { Offsets } from "../../src/lib/offsets.ts";
import { levelOf } from "../../src/lib/level.ts";

test("offsets agree with adding the heights up", () => {
  let seed = 7;
  const random = (n: number) => (seed = (seed * 1103515245 + 12345) % 2147483648) % n;
  const off = new Offsets(28);
  let heights: number[] = [];
  const check = () => {
    assert.equal(off.length, heights.length);
    let y = 0;
    heights.forEach((height, i) => {
      assert.equal(off.at(i), y);
      assert.equal(off.height(i), height);
      assert.equal(off.find(y), i);
      assert.equal(off.find(y + height - 1), i);
      y += height;
    });
    assert.equal(off.at(heights.length), y);
    if (heights.length) assert.equal(off.find(y + 1000), heights.length - 1);
  };
  check();
  for (let round = 0; round < 200; round++) {
    const k = random(5);
    if (k === 0) { const n = random(40); off.grow(n, "end"); heights.push(...Array(n).fill(28)); }
    else if (k === 1) { const n = random(40); off.grow(n, "start"); heights.unshift(...Array(n).fill(28)); }
    else if (k === 2 && random(4) === 0) { const n = random(heights.length + 1); off.cut(n); heights.length = n; }
    else if (heights.length) for (let j = 0; j < 5; j++) { const i = random(heights.length), height = 1 + random(300); off.set(i, height); heights[i] = height; }
    check();
  }
  off.reset(3, 10);
  heights = [10, 10, 10];
  check();
});

test("levels of many senders", () => {
  for (const [v, want] of [["ERROR", "error"], ["err", "error"], ["Warning", "warn"], ["emerg", "fatal"], ["notice", "info"], ["verbose", "trace"], [17, "error"], ["9", "info"], [24, "fatal"], [1, "trace"], ["INFO2", "info"], [50, "error"], ["50", "error"], [99, ""], [25, ""], ["", ""], ["purple", ""], [null, ""], [{}, ""]] as const) assert.equal(levelOf(v), want, String(v));
});
