// Packed columns come back as they were; what is missing is a sentence.
import { expect, it } from "vitest";
import { openChannel, type Transport } from "../src/view/channel";
import { VERSION } from "../src/view/protocol";
import { unpack } from "../src/view/unpack";

const view = (numbers: Int32Array | Float64Array | Uint8Array) => {
  // not aligned, as a host may hand it over
  const bytes = new Uint8Array(numbers.byteLength + 1);
  bytes.set(new Uint8Array(numbers.buffer), 1);
  return new DataView(bytes.buffer, 1);
};

it("puts columns of every kind back", () => {
  const buffers = [
    new DataView(new ArrayBuffer(0)),
    view(new Int32Array([1, -2, 3])),
    view(new Float64Array([2 ** 40, 5])),
    view(new Uint8Array([1, 0])),
    view(new Int32Array([1, 0, 1])),
  ];
  const packed = {
    type: "graph",
    few: [1, 2],
    nodes: { a: { $packed: "int32", at: 1 }, b: { $packed: "float64", at: 2 }, c: { $packed: "bool", at: 3 } },
    shape: { $packed: "table", at: 4, table: [[], [2, 3]] },
    groups: { $packed: "rows", columns: { id: { $packed: "int32", at: 1 }, name: ["x", "y", "<b>"] } },
  };
  expect(unpack(packed, buffers)).toEqual({
    type: "graph",
    few: [1, 2],
    nodes: { a: [1, -2, 3], b: [2 ** 40, 5], c: [true, false] },
    shape: [[2, 3], [], [2, 3]],
    groups: [
      { id: 1, name: "x" },
      { id: -2, name: "y" },
      { id: 3, name: "<b>" },
    ],
  });
});

it("says so when a column's buffer has not come", () => {
  let receive: (message: unknown, buffers: readonly ArrayBuffer[]) => void = () => undefined;
  const transport: Transport = { send: () => undefined, listen: (to) => ((receive = to), () => undefined) };
  const channel = openChannel(transport);
  const said: string[] = [];
  channel.subscribe({ message: () => said.push("a message"), trouble: (sentence) => said.push(sentence) });
  receive({ type: "graph", v: VERSION, nodes: { $packed: "int32", at: 2 } }, []);
  expect(said).toEqual(["A column of the kernel's message came incomplete: buffer 2 of 0 is missing."]);
  channel.close();
});
