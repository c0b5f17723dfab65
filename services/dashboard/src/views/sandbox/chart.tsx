import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { Sample, Use } from "../../api/types";
import { dark } from "../../state/theme";
import { clock } from "../../story/words";
import { colourOf } from "../../ui/colour";

export interface ChartProps {
  name: string;
  samples: Sample[];
  value: (use: Use) => number;
  words: (value: number) => string;
  limit: number;
  /** What its axis may count by, where that is not tens. */
  steps?: number[] | undefined;
}

const HEIGHT = 110;
/** Hours and minutes of a clock's time. */
const SHORT = 5;
const MINUTE_S = 60;

/** One figure over time. */
export function Chart({ name, samples, value, words, limit, steps }: ChartProps) {
  const place = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const last = samples.at(-1);
  const now = last ? value(last.use) : 0;
  const data: uPlot.AlignedData = [samples.map((each) => Date.parse(each.at) / 1000), samples.map((each) => value(each.use))];

  useEffect(() => {
    const element = place.current;
    if (element === null) return;
    const made = new uPlot(optionsOf(element.clientWidth, words, steps), data, element);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => { observer.disconnect(); made.destroy(); plot.current = null; };
  }, [dark.value]);
  useEffect(() => plot.current?.setData(data), [samples]);

  return (
    <figure class="card chart" aria-label={`${name}: ${words(now)} of ${words(limit)}`}>
      <figcaption class="row"><span class="soft grow">{name}</span><strong>{words(now)}</strong><span class="faint">of {words(limit)}</span></figcaption>
      <div class={`meter ${now / limit > 0.85 ? "high" : ""}`}><i style={{ width: `${Math.min(100, (now / limit) * 100)}%` }} /></div>
      <div class="plot" ref={place} />
    </figure>
  );
}

function optionsOf(width: number, words: (value: number) => string, steps: number[] | undefined): uPlot.Options {
  const accent = colourOf("accent");
  const axis = { stroke: colourOf("faint"), grid: { stroke: colourOf("edge"), width: 1 }, ticks: { show: false }, font: "11px system-ui" };
  return {
    width, height: HEIGHT, legend: { show: false }, cursor: { y: false, points: { size: 6 } },
    scales: { y: { range: (_, __, most) => [0, Math.max(most * 1.15, 1)] } },
    axes: [
      { ...axis, space: 90, size: 28, values: (_, times, __, ___, step) => times.map((each) => clock(each * 1000).slice(0, step < MINUTE_S ? undefined : SHORT)) },
      { ...axis, size: 58, space: 34, values: (_, values) => values.map(words), ...(steps && { incrs: steps }) },
    ],
    series: [{}, { stroke: accent, width: 1.5, fill: accent.replace("rgb(", "rgba(").replace(")", ", 0.12)"), points: { show: (plot) => plot.data[0].length < 3 } }],
  };
}
