import type { Link } from "../live/feed";

/** Says that the line is broken, and that nothing is lost by it. */
export function Banner({ link, trouble = null }: { link: Link; trouble?: string | null }) {
  if (link !== "broken") return null;
  return (
    <div class="banner" role="status">
      <span class="pill warn beating">away</span>
      <span>The gateway is away. What you see is the last that was heard; it goes on from there as soon as it answers.{trouble ? ` ${trouble}` : ""}</span>
    </div>
  );
}
