// The development page: the view on a kernel in the page. ?show=mlp|lstm|transformer|mistake|empty&n=500&theme=dark&height=460&steps=0&live=4
// npx esbuild test/page/page.ts --bundle --format=esm --loader:.css=text --servedir=test/page --outdir=test/page
import view from "../../src/view/index";
import { FakeKernel } from "./kernel";
import { Builder, lstm, mistake, mlp, transformer } from "./recordings";

const query = new URLSearchParams(location.search);
const n = query.has("n") ? Number(query.get("n")) : undefined;
const builders: Record<string, () => Builder> = {
  mlp,
  lstm: () => lstm(n ?? 500),
  transformer: () => transformer(n ?? 12),
  mistake,
  tensor: () => {
    const builder = mlp();
    builder.view = "tensor";
    builder.root = Number(query.get("n") ?? 7);
    return builder;
  },
  empty: () => new Builder(),
};
document.body.dataset.jpThemeLight = String(query.get("theme") !== "dark");
document.body.style.background = query.get("theme") === "dark" ? "#111" : "#fff";

const began = performance.now();
const kernel = new FakeKernel(builders[query.get("show") ?? "mlp"]!(), "r1", query.get("steps") !== "0");
const built = performance.now();
const el = document.getElementById("view")!;
const height = Number(query.get("height") ?? 460);
const listeners = new Map<unknown, () => void>();
const model = {
  get: (key: string) => (key === "height" ? height : undefined),
  send: (message: unknown) => kernel.send(message),
  on(event: string, callback: (message: unknown, buffers: DataView[]) => void) {
    if (event === "msg:custom")
      listeners.set(
        callback,
        kernel.listen((message, buffers) => callback(message, buffers as DataView[])),
      );
  },
  off(_event: string, callback: unknown) {
    listeners.get(callback)?.();
  },
};
const opened = performance.now();
const close = view.render({ model, el });
if (query.has("live")) {
  const parts = kernel.builder.graphs("live", Number(query.get("live")) || 4);
  const timer = setInterval(() => (parts.length ? kernel.push(parts.shift()!) : clearInterval(timer)), 100);
}
const times = { built: built - began, shown: -1 };
const watch = () => {
  if (el.firstElementChild?.shadowRoot?.querySelector(".wb-box")) times.shown = performance.now() - opened;
  else requestAnimationFrame(watch);
};
watch();
Object.assign(globalThis, { kernel, close, times });
