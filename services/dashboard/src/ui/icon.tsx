/** Small drawings, all of one hand. They are for the eye only: a button that has nothing else needs a label. */

const PATHS = {
  plus: "M8 3v10M3 8h10",
  play: "M5 3.5v9l7.5-4.5z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  stop: "M4 4h8v8H4z",
  close: "M4 4l8 8M12 4l-8 8",
  back: "M10 3L5 8l5 5",
  right: "M6 3l5 5-5 5",
  down: "M3 6l5 5 5-5",
  sun: "M8 5a3 3 0 1 0 0 6 3 3 0 0 0 0-6M8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M13 3l-1 1M4 12l-1 1",
  moon: "M13 9.5A5.5 5.5 0 0 1 6.5 3 5.5 5.5 0 1 0 13 9.5z",
  half: "M8 2a6 6 0 1 0 0 12zM8 2a6 6 0 0 1 0 12",
  help: "M6 6a2 2 0 1 1 2.7 1.9c-.5.2-.7.6-.7 1.1v.5M8 12v.2M8 1.5a6.5 6.5 0 1 0 0 13 6.5 6.5 0 0 0 0-13z",
  send: "M2 8l12-5-4 11-3-4.5z",
  bolt: "M9 1.5L3.5 9H8l-1 5.5L12.5 7H8z",
  file: "M4 1.5h5l3 3v10H4zM9 1.5v3h3",
  folder: "M1.5 4h5l1.5 2h6.5v7.5h-13z",
  link: "M6.5 9.5l3-3M5 11l-1 1a2 2 0 0 1-3-3l2.5-2.5M11 5l1-1a2 2 0 0 1 3 3l-2.5 2.5",
  check: "M3 8.5l3.5 3.5L13 4.5",
  search: "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.5 10.5L14 14",
  fork: "M4 2.5v11M12 2.5v3c0 3-8 2-8 5",
  camera: "M2 5h3l1-2h4l1 2h3v8H2zM8 7a2 2 0 1 0 0 4 2 2 0 0 0 0-4z",
  trash: "M3 4.5h10M6 4.5V2.5h4v2M4.5 4.5l.5 9h6l.5-9",
  terminal: "M2 3h12v10H2zM4.5 6l2 2-2 2M8.5 10h3",
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }) {
  return (
    <svg width={size} height={size} viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
