import { signal } from "@preact/signals";

const query = matchMedia("(max-width: 1079px)");

/** There is room for one thing at a time. */
export const narrow = signal(query.matches);
query.addEventListener("change", () => {
  narrow.value = query.matches;
});
