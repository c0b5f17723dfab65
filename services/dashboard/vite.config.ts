import { defineConfig } from "vite";

const gateway = "http://127.0.0.1:7300";

export default defineConfig({
  base: "/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    // Everything is a file of its own origin: the policy allows no data: scripts, and no inline ones.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    chunkSizeWarningLimit: 900,
    sourcemap: false,
    target: ["chrome123", "edge123", "firefox121", "safari17.5"],
  },
  server: { proxy: { "/api": gateway, "/ws": { target: gateway, ws: true } } },
});
