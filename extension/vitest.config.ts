import { defineConfig } from "vitest/config";

export default defineConfig({
  plugins: [
    {
      // Style sheets are text, as in the bundles.
      name: "css-as-text",
      enforce: "pre",
      async resolveId(id, importer) {
        if (!id.endsWith(".css")) return null;
        const found = await this.resolve(id, importer, { skipSelf: true });
        return found && `${found.id}?raw`;
      },
    },
  ],
  server: { fs: { allow: [".."] } }, // the golden logs lie with the kernel's tests
  test: {
    environment: "jsdom",
    include: ["test/**/*.test.ts"],
    css: true,
    pool: "threads",
    isolate: false, // a page for each worker
    testTimeout: 1_200_000, // a limit for what hangs, however busy the machine is
  },
});
