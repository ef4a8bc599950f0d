// Calls the example `in_browser`: node run.mjs in_browser.wasm
import { readFile } from "node:fs/promises";

const bytes = await readFile(process.argv[2]);
const { instance } = await WebAssembly.instantiate(bytes, {});
const corten = instance.exports;

const check = (what, found, isRight) => {
  console.log(`${what}: ${found}`);
  if (!isRight) throw new Error(`${what} is wrong`);
};

check("start", corten.start(), corten.start() === 0);
let expected = 0;
for (let i = 0; i < 8; i++)
  for (let j = 0; j < 8; j++)
    for (let k = 0; k < 8; k++) expected += (8 * i + k + 1) * (8 * k + j + 1);
const sum = corten.arithmetic(8);
check("arithmetic", sum, sum === expected);
const [first, last] = [corten.train(1), corten.train(200)];
check("loss of the first step", first, first > 0.5 && first < 1.5);
check("loss of the last step", last, last >= 0 && last < 0.1);
const size = corten.round_trip();
check("bytes of the file", size, size > 42 * 4);
