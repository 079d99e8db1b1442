// Builds the bundles: the widget's module for any notebook, the stand-alone replay, and the JupyterLab extension.

import { createHash } from "node:crypto";
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import { build, transform } from "esbuild";

const NAME = "gradient-workbench";
const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const version = /^version = "(.+)"$/m.exec(await readFile(here("../pyproject.toml"), "utf8"))[1];

// Style sheets are imported as text; minified, they are a fifth smaller.
const styles = {
  name: "styles",
  setup: ({ onLoad }) =>
    onLoad({ filter: /\.css$/ }, async ({ path }) => {
      const { code } = await transform(await readFile(path, "utf8"), { loader: "css", minify: true });
      return { contents: code, loader: "text" };
    }),
};

const options = {
  plugins: [styles],
  bundle: true,
  minify: true,
  target: "es2022",
  loader: { ".svg": "text" },
  legalComments: "none",
  logLevel: "warning",
};

// The widget: one module without imports.
await build({
  ...options,
  entryPoints: [here("src/view/index.ts")],
  format: "esm",
  outfile: here("../workbench/jupyter/static/view.js"),
});

// The stand-alone replay: one script for a separate page.
await build({
  ...options,
  entryPoints: [here("src/replay/index.ts")],
  format: "iife",
  charset: "utf8",
  outfile: here("../workbench/jupyter/static/replay.js"),
});

// The extension: JupyterLab shares its packages at run time, as a module federation container expects.
const lab = await build({
  ...options,
  entryPoints: [here("src/lab/index.ts")],
  format: "cjs",
  external: ["@jupyterlab/*", "@lumino/*"],
  metafile: true,
  write: false,
  outdir: here("build"),
});
const [output] = Object.values(lab.metafile.outputs);
const shared = [...new Set(output.imports.filter((one) => one.external).map((one) => one.path))];

const container = `(() => {
  const shared = ${JSON.stringify(shared)};
  let scope;
  async function load(name) {
    const versions = Object.values(scope[name] ?? {});
    if (versions.length === 0) throw new Error("${NAME}: this JupyterLab does not share " + name);
    const one = versions.find((entry) => entry.loaded || entry.eager) ?? versions[0];
    return (await one.get())();
  }
  (globalThis._JUPYTERLAB ??= {})["${NAME}"] = {
    init(given) { scope = given; },
    async get() {
      const modules = Object.fromEntries(await Promise.all(shared.map(async (name) => [name, await load(name)])));
      const module = { exports: {} };
      (function (require, module, exports) {
${lab.outputFiles[0].text}
      })((name) => modules[name], module, module.exports);
      return () => module.exports;
    },
  };
})();
`;

const entry = `remoteEntry.${createHash("sha256").update(container).digest("hex").slice(0, 16)}.js`;
const folder = here("build/labextension/");
await rm(folder, { recursive: true, force: true });
await mkdir(`${folder}static`, { recursive: true });
await writeFile(`${folder}static/${entry}`, container);
await writeFile(`${folder}package.json`, json({
  name: NAME,
  version,
  license: "Apache-2.0",
  jupyterlab: { extension: true, _build: { load: `static/${entry}`, extension: "./extension" } },
}));
await writeFile(`${folder}install.json`, json({
  packageManager: "python",
  packageName: NAME,
  uninstallInstructions: `Run: pip uninstall ${NAME}`,
}));

function json(value) {
  return JSON.stringify(value, null, 2) + "\n";
}
