// Perfetto's trace_processor as a process: a line of JSON in, a line of JSON out.
//   in:  {"trace": PATH, "sql": [..]}
//   out: {"rows": [[[..], ..], ..]} one list of rows per statement, integers as decimal text; or {"error": ".."}
// TP_ASSETS names the folder with the engine (fetch_trace_processor.sh).
import fs from 'node:fs';
import path from 'node:path';
import readline from 'node:readline';
import vm from 'node:vm';
import { pathToFileURL } from 'node:url';
import { within } from './wait.mjs';

const dir = process.env.TP_ASSETS;

// ---- protobuf, as much as the RPC needs ----
const varint = (value) => {
  const out = [];
  let n = BigInt(value);
  for (; n > 127n; n >>= 7n) out.push(Number(n & 127n) | 128);
  out.push(Number(n));
  return Buffer.from(out);
};
const intField = (id, n) => Buffer.concat([varint(id << 3), varint(n)]);
const bytesField = (id, b) => Buffer.concat([varint((id << 3) | 2), varint(b.length), b]);

function* parse(buf) {
  let at = 0;
  const next = () => {
    for (let shift = 0n, value = 0n; ; shift += 7n) {
      const byte = buf[at++];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value;
    }
  };
  while (at < buf.length) {
    const key = Number(next()), id = key >> 3, wire = key & 7;
    if (wire === 0) yield [id, next()];
    else if (wire === 2) { const n = Number(next()); yield [id, buf.subarray(at, at + n)]; at += n; }
    else if (wire === 1) { yield [id, buf.subarray(at, at + 8)]; at += 8; }
    else if (wire === 5) { yield [id, buf.subarray(at, at + 4)]; at += 4; }
    else throw new Error(`wire type ${wire}`);
  }
}

// ---- the engine ----
async function boot() {
  const define = (key, value) => Object.defineProperty(globalThis, key, { value, writable: true, configurable: true });
  define('self', globalThis);
  define('WorkerGlobalScope', function () {});
  define('location', { href: pathToFileURL(dir).href + '/' });
  globalThis.wasmBytes = new Uint8Array(fs.readFileSync(path.join(dir, 'trace_processor.wasm')));
  let glue = fs.readFileSync(path.join(dir, 'engine_bundle.node.js'), 'utf8');
  for (const [from, to] of [
    ['this.useMemory64 = hasMemory64Support();', 'this.useMemory64 = false;'],
    ['locateFile: (s) => s,', 'locateFile: (s) => s, wasmBinary: globalThis.wasmBytes,'],
    ['const wasmBridge = new wasm_bridge_1.WasmBridge();',
     'const wasmBridge = new wasm_bridge_1.WasmBridge(); globalThis.bridge = wasmBridge;'],
  ]) {
    if (!glue.includes(from)) throw new Error(`the engine's glue has changed: ${from}`);
    glue = glue.replace(from, to);
  }
  vm.runInThisContext(glue, { filename: 'glue.js' });
  if (!await within(300, () => globalThis.bridge.reqBufferAddr)) throw new Error('the engine did not start');
  return globalThis.bridge;
}

class Engine {
  constructor(bridge) {
    this.bridge = bridge;
    this.sequence = 0;
    this.replies = [];
    bridge.messagePort = { postMessage: (data) => this.replies.push(Buffer.from(data)) };
  }
  call(method, argument) {
    this.replies = [];
    const body = Buffer.concat([intField(1, this.sequence++), intField(2, method), argument ?? Buffer.alloc(0)]);
    const frame = bytesField(1, body);
    this.bridge.onMessage({ data: new Uint8Array(frame.buffer, frame.byteOffset, frame.length) });
    return [...parse(Buffer.concat(this.replies))].map(([, message]) => {
      const fields = Object.fromEntries(parse(message));
      if (fields[5]) throw new Error(`fatal: ${fields[5]}`);
      return fields;
    });
  }
  load(file) {
    const fd = fs.openSync(file, 'r'), chunk = Buffer.alloc(8 << 20);
    for (let n; (n = fs.readSync(fd, chunk)) > 0;)
      for (const reply of this.call(1, bytesField(101, chunk.subarray(0, n))))
        for (const [id, value] of parse(reply[201] ?? Buffer.alloc(0))) if (id === 2) throw new Error(`append: ${value}`);
    fs.closeSync(fd);
    for (const reply of this.call(2))
      for (const [, value] of parse(reply[212] ?? Buffer.alloc(0))) if (Buffer.isBuffer(value)) throw new Error(`end: ${value}`);
  }
  query(sql) {
    const columns = [], rows = [];
    let row = [];
    for (const reply of this.call(3, bytesField(103, bytesField(1, Buffer.from(sql)))))
      for (const [id, value] of parse(reply[203] ?? Buffer.alloc(0))) {
        if (id === 1) columns.push(value.toString());
        else if (id === 2) throw new Error(`${sql}: ${value}`);
        else if (id === 3) {
          let types = [], ints = [], doubles = [], texts = [];
          for (const [field, cell] of parse(value)) {
            if (field === 1) types = [...cell];
            else if (field === 2) {
              for (let at = 0; at < cell.length;) {
                let v = 0n, shift = 0n, byte;
                do { byte = cell[at++]; v |= BigInt(byte & 127) << shift; shift += 7n; } while (byte > 127);
                ints.push(BigInt.asIntN(64, v));
              }
            } else if (field === 3) for (let at = 0; at < cell.length; at += 8) doubles.push(cell.readDoubleLE(at));
            else if (field === 5) texts = cell.toString().split('\0');
          }
          let int = 0, double = 0, text = 0;
          for (const type of types) {
            row.push(type === 1 ? null : type === 2 ? String(ints[int++]) : type === 3 ? doubles[double++] : type === 4 ? texts[text++] : '');
            if (row.length === columns.length) { rows.push(row); row = []; }
          }
        }
      }
    return rows;
  }
}

for await (const line of readline.createInterface({ input: process.stdin })) {
  const { trace, sql } = JSON.parse(line);
  let reply;
  try {
    const engine = new Engine(await boot());
    engine.load(trace);
    reply = { rows: sql.map((s) => engine.query(s)) };
  } catch (error) {
    reply = { error: error.message };
  }
  const text = Buffer.from(JSON.stringify(reply) + '\n');
  for (let at = 0; at < text.length;) { // stdout may be a full pipe
    try {
      at += fs.writeSync(1, text, at);
    } catch (error) {
      if (error.code !== 'EAGAIN') throw error;
    }
  }
  process.exit(0); // one trace per process: the engine cannot be reset
}
