/** What the sandbox uses: CPU, memory, processes, disk. */

import { useEffect, useState } from "preact/hooks";
import { get } from "../../api/http";
import { wordsOf } from "../../api/problem";
import { pathOf } from "../../api/sandboxes";
import type { Resources, Sample, Use, Vitals } from "../../api/types";
import type { SandboxStore } from "../../state/sandbox";
import { bytes } from "../../story/words";
import { Empty } from "../../ui/empty";
import { Chart } from "./chart";

const EVERY_MS = 3000;
const MEGABYTE = 1024 * 1024;

interface Measure {
  name: string;
  value: (use: Use) => number;
  words: (value: number) => string;
  limit: (resources: Resources) => number;
  steps?: number[];
}

const BINARY = Array.from({ length: 45 }, (_, power) => 2 ** power);

const MEASURES: Measure[] = [
  { name: "CPU", value: (use) => use.cpu_percent, words: (value) => `${value.toFixed(value < 10 ? 1 : 0)} %`, limit: ({ cpus }) => cpus * 100 },
  { name: "Memory", value: (use) => use.memory_bytes, words: bytes, limit: ({ memory_mb }) => memory_mb * MEGABYTE, steps: BINARY },
  { name: "Processes", value: (use) => use.processes, words: (value) => String(Math.round(value)), limit: ({ pids }) => pids },
  { name: "Disk", value: (use) => use.disk_bytes, words: bytes, limit: ({ disk_mb }) => disk_mb * MEGABYTE, steps: BINARY },
];

export function UsePanel({ store }: { store: SandboxStore }) {
  const [samples, setSamples] = useState<Sample[] | null>(null);
  const [trouble, setTrouble] = useState<string | null>(null);
  useEffect(() => {
    let timer: ReturnType<typeof setTimeout>;
    let over = false;
    async function look(): Promise<void> {
      try {
        const found = await get<Vitals>(`${pathOf(store.id)}/metrics`);
        if (over) return;
        setSamples(found.recent);
        setTrouble(null);
      } catch (error) {
        if (!over) setTrouble(wordsOf(error));
      }
      if (!over) timer = setTimeout(() => void look(), EVERY_MS);
    }
    void look();
    return () => { over = true; clearTimeout(timer); };
  }, [store]);

  const resources = store.shown.value?.spec.resources;
  const until = store.moment.value === null ? null : (store.record.at(store.count.value - 1)?.time ?? null);
  if (samples === null || resources === undefined) return <Empty title={trouble ? "The figures could not be read" : "Looking…"}>{trouble && <p>{trouble}</p>}</Empty>;
  const seen = until === null ? samples : samples.filter((each) => Date.parse(each.at) <= until);
  if (seen.length === 0) return <Empty title="No figures"><p>{until === null ? "It does not run, and what it used has expired. Figures are kept for a while, not for ever." : "The figures of that time have expired. They are signs of life, and not part of the record."}</p></Empty>;
  const enforcement = store.shown.value?.enforcement ?? {};
  return (
    <div class="use-panel" tabIndex={0} role="region" aria-label="Use">
      <div class="charts">
        {MEASURES.map((measure) => <Chart key={measure.name} name={measure.name} samples={seen} value={measure.value} words={measure.words} limit={measure.limit(resources)} steps={measure.steps} />)}
      </div>
      {Object.keys(enforcement).length > 0 && (
        <section class="card enforcement" aria-label="What holds its limits">
          <h2>What holds its limits</h2>
          <dl>{Object.entries(enforcement).map(([limit, words]) => <div key={limit}><dt>{limit}</dt><dd class="soft">{words}</dd></div>)}</dl>
        </section>
      )}
    </div>
  );
}
