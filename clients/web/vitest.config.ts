import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    projects: [
      // Some compute for seconds where much else runs.
      { test: { name: "unit", include: ["tests/unit/**/*.test.ts"], testTimeout: 60_000 } },
      { test: { name: "relay", include: ["tests/relay/**/*.test.ts"], testTimeout: 60_000 } },
      {
        test: {
          name: "browser",
          include: ["tests/browser/**/*.test.ts"],
          testTimeout: 180_000,
          hookTimeout: 120_000,
          // Two browsers that draw at once are as much as a small machine does in time.
          maxWorkers: 2,
          maxConcurrency: 3,
          fileParallelism: true,
        },
      },
      {
        test: {
          name: "measure",
          include: ["tests/measure/**/*.measure.ts"],
          testTimeout: 600_000,
          hookTimeout: 120_000,
        },
      },
    ],
  },
});
