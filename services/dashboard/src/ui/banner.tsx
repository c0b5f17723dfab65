import type { Link } from "../live/feed";

/** Says what the log has lost: what is shown is not all that happened. */
export function LackBanner({ lacking }: { lacking: string[] }) {
  if (lacking.length === 0) return null;
  const more = lacking.length > SHOWN ? ` and ${lacking.length - SHOWN} more` : "";
  return (
    <div class="banner" role="status">
      <span class="pill bad">lost</span>
      <span>The log has lost {lacking.slice(0, SHOWN).join(", ")}{more}: nobody can say what was there. <code>./cloche audit</code> says since when.</span>
    </div>
  );
}

const SHOWN = 5;

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
